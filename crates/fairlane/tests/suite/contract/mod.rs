//! What every backend has to do.

mod chaos;
mod fair_lock;
mod guard;
mod line;
mod lock;
mod multi_lock;
pub(crate) mod rate_limiter;
mod semaphore;

use testkit::RedisCluster;

/// The whole contract on a six-node Redis Cluster.
#[tokio::test]
async fn everything_holds_on_a_cluster() {
    let cluster = RedisCluster::start();
    chaos::on_cluster(&cluster).await;
    fair_lock::on_cluster(&cluster).await;
    line::on_cluster(&cluster).await;
    lock::on_cluster(&cluster).await;
    multi_lock::on_cluster(&cluster).await;
    semaphore::on_cluster(&cluster).await;
    rate_limiter::on_cluster(&cluster).await;
    guard::on_cluster(&cluster).await;
    crate::locked::on_cluster(&cluster).await;
}
