//! Payments with a provider. A small stand-in speaks its side over real HTTP; each story is told over SQLite with lines in
//! memory, and over PostgreSQL with two servers that share their lines in Redis.

mod events;
mod killed;
mod late;
mod paying;
mod provider;
mod races;
mod refunds;
mod shop;

/// Tells each story in both settings.
macro_rules! in_both_settings {
    ($($story:ident)*) => {
        mod embedded {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $story() {
                super::$story(crate::payments::shop::Shop::embedded().await).await;
            })*
        }

        mod shared {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $story() {
                super::$story(crate::payments::shop::Shop::shared().await).await;
            })*
        }
    };
}
use in_both_settings;
