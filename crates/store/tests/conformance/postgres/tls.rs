//! TLS: a server is believed when its certificate leads to the given root and bears the name it was called by.

use std::time::{Duration, Instant};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use store::postgres::Options;
use store::{Error, Store};
use testkit::Postgres;

fn authority() -> CertifiedIssuer<'static, KeyPair> {
    let mut params = CertificateParams::new([]).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

#[tokio::test]
async fn a_server_is_believed_by_its_certificate_alone() {
    let server = Postgres::alone();
    let (ours, other) = (authority(), authority());
    let key = KeyPair::generate().unwrap();
    let certificate = CertificateParams::new(["127.0.0.1".into()]).unwrap().signed_by(&key, &ours).unwrap();
    server.speak_tls(&certificate.pem(), &key.serialize_pem());

    let folder = tempfile::tempdir().unwrap();
    let open = async |url: String, mode: &str, root: &str| {
        let path = folder.path().join("root.pem");
        std::fs::write(&path, root).unwrap();
        Store::postgres(
            &Options::new(&format!("{url}?sslmode={mode}&sslrootcert={}", path.display())).unwrap(),
        )
        .await
    };
    let url = server.url("postgres");
    let give_up = Instant::now() + Duration::from_secs(10);
    let store = loop {
        match open(url.clone(), "verify-full", &ours.pem()).await {
            Ok(store) => break store,
            // The server has been told to speak TLS and is about to.
            Err(error) => assert!(Instant::now() < give_up, "{error:?}"),
        }
    };
    store.ping().await.unwrap();
    let spoken = "DO $$ BEGIN IF NOT EXISTS (SELECT FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) \
                  WHERE ssl AND application_name = 'maitred') THEN RAISE 'not over TLS'; END IF; END $$";
    server.execute("postgres", spoken).unwrap();

    let strangers = open(url.clone(), "require", &other.pem()).await.err();
    assert!(matches!(strangers, Some(Error::Unavailable(_))), "{strangers:?}");
    let by_another_name = open(url.replace("127.0.0.1", "localhost"), "verify-full", &ours.pem()).await.err();
    assert!(matches!(by_another_name, Some(Error::Unavailable(_))), "{by_another_name:?}");
}
