//! One line over three servers (B3, B4, B7): whoever comes first is served first, wherever they come in.

use std::collections::BTreeSet;

use super::cluster::{Cluster, Doors, slot, tables};
use super::guests::{Ending, Plan, Visit};
use super::load::Flow;
use crate::crowd::at_once;

fn plan(person: super::guests::Person, slot: booking::SlotId, first: usize) -> Plan {
    Plan { person, slot, party: 2, first, wait: 5, pays: false }
}

/// People who come one after the other, each to the next server, each when the one before has been answered.
async fn one_by_one(plans: Vec<Plan>, doors: &Doors) -> Vec<Visit> {
    let mut visits = Vec::new();
    for plan in plans {
        visits.push(plan.carry_out(doors, &Flow::default()).await);
    }
    visits
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_hundred_people_at_three_servers_on_ten_tables() {
    let cluster = Cluster::start().await;
    let noon = slot(cluster.venue(tables(10)).await, 0);
    let people = cluster.people(300).await.into_iter().enumerate();
    let visits = at_once(people.map(|(n, person)| {
        let (plan, doors) = (plan(person, noon, n), cluster.doors());
        async move { plan.carry_out(&doors, &Flow::default()).await }
    }))
    .await;

    let findings = cluster.audit(&visits).await.clean().in_order();
    assert_eq!((findings.won, findings.refused, findings.epochs), (10, 290, 1));
    let number = |visit: &Visit| visit.log.last().unwrap().ticket.unwrap().number();
    let winners = visits.iter().filter(|visit| matches!(visit.ending, Ending::Won(_))).map(number);
    assert_eq!(winners.collect::<BTreeSet<_>>(), (1..=10).collect(), "the first ten");
    assert_eq!(
        visits.iter().map(number).collect::<BTreeSet<_>>(),
        (1..=300).collect(),
        "nobody has no number"
    );
    let homes: BTreeSet<_> = visits.iter().map(|visit| visit.log[0].member).collect();
    assert_eq!(homes.len(), 3, "void: they came in at {homes:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_comes_later_at_another_server_has_the_higher_number() {
    let cluster = Cluster::start().await;
    let noon = slot(cluster.venue(tables(10)).await, 0);
    let people = cluster.people(30).await.into_iter().enumerate();
    let visits =
        one_by_one(people.map(|(n, person)| plan(person, noon, n)).collect(), &cluster.doors()).await;
    cluster.audit(&visits).await.clean().in_order();
    let numbers: Vec<_> = visits.iter().map(|visit| visit.log[0].ticket.unwrap().number()).collect();
    assert_eq!(numbers, (1..=30).collect::<Vec<u64>>());
}

/// The control: without Redis nothing is sold twice either, but there are three lines, and the first by number are not
/// those who won.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_shared_lines_there_are_three() {
    let cluster = Cluster::apart().await;
    let noon = slot(cluster.venue(tables(10)).await, 0);
    let people = cluster.people(30).await.into_iter().enumerate();
    let visits =
        one_by_one(people.map(|(n, person)| plan(person, noon, n)).collect(), &cluster.doors()).await;
    let findings = cluster.audit(&visits).await.clean();
    assert_eq!((findings.won, findings.epochs), (10, 3));
    assert!(findings.overtaken > 0, "{findings:?}");
}
