//! A Redis Cluster of one's own.

use std::time::Duration;

use crate::{RedisServer, free_port, until};

/// Three primaries and three replicas on the loopback interface.
#[derive(Debug)]
pub struct RedisCluster {
    nodes: Vec<RedisServer>,
}

const PRIMARIES: usize = 3;
const SLOTS: usize = 16_384;

impl RedisCluster {
    /// Starts six nodes, joins them, and waits until all of them see a whole cluster.
    pub fn start() -> Self {
        let nodes: Vec<_> = (0..2 * PRIMARIES)
            .map(|_| {
                let bus = free_port().to_string();
                RedisServer::with_options(&[
                    "--cluster-enabled",
                    "yes",
                    "--cluster-port",
                    &bus,
                    "--cluster-node-timeout",
                    "2000",
                    "--cluster-replica-validity-factor",
                    "0",
                ])
            })
            .collect();
        let cluster = Self { nodes };
        cluster.join();
        cluster
    }

    fn join(&self) {
        for (index, node) in self.nodes.iter().take(PRIMARIES).enumerate() {
            let (first, end) = (index * SLOTS / PRIMARIES, (index + 1) * SLOTS / PRIMARIES);
            node.command(&["CLUSTER", "ADDSLOTSRANGE", &first.to_string(), &(end - 1).to_string()]);
            node.command(&["CLUSTER", "SET-CONFIG-EPOCH", &(index + 1).to_string()]);
        }
        let first = &self.nodes[0];
        for node in &self.nodes[1..] {
            let bus = node.command(&["CONFIG", "GET", "cluster-port"]).to_string();
            let bus = bus.lines().last().unwrap_or_default().to_owned();
            first.command(&["CLUSTER", "MEET", "127.0.0.1", &node.port().to_string(), &bus]);
        }
        let patience = Duration::from_secs(30);
        until("all nodes know each other", patience, || self.all_report("cluster_known_nodes:6"));
        for (index, node) in self.nodes.iter().skip(PRIMARIES).enumerate() {
            let primary = self.nodes[index].command(&["CLUSTER", "MYID"]).to_string();
            until(
                "a replica accepts its primary",
                patience,
                || matches!(node.try_command(&["CLUSTER", "REPLICATE", &primary]), Ok(crate::Reply::Text(text)) if text == "OK"),
            );
        }
        until("the cluster is whole", patience, || self.all_report("cluster_state:ok"));
        for node in &self.nodes[PRIMARIES..] {
            node.until_replicating();
        }
    }

    fn all_report(&self, line: &str) -> bool {
        self.nodes.iter().all(|node| node.command(&["CLUSTER", "INFO"]).to_string().contains(line))
    }

    /// Where clients connect.
    pub fn urls(&self) -> Vec<String> {
        self.nodes.iter().map(RedisServer::url).collect()
    }

    /// The nodes; the first three were started as primaries, and node `n + 3` as the replica of node `n`.
    pub fn nodes(&mut self) -> &mut [RedisServer] {
        &mut self.nodes
    }
}
