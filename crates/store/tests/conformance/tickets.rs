//! Tickets and keys: whatever was decided once is found again, and is not decided twice.

use std::sync::Arc;

use booking::*;
use store::CommitError;

use super::world::{World, done, person, places};

#[tokio::test]
async fn a_ticket_that_won_does_not_win_again() {
    let world = World::new(places(20)).await;
    let slot = world.slot(12);
    let won = world.book(slot, 1, 2);
    let first = done(&world.run(std::slice::from_ref(&won)).await[0]);
    world.run(&[world.cancel(&first)]).await;

    // The same request again, as after a crash, and the same ticket with another request.
    let mut other = world.book(slot, 1, 2);
    other.ticket = won.ticket;
    for again in [won.clone(), other] {
        let commands = [world.book(slot, 2, 2), again, world.book(slot, 3, 2)];
        let (batch, _) = world.decide(&world.load(slot).await, &commands).await;
        let answer = world.store.commit(batch).await;
        assert!(matches!(answer, Err(CommitError::Decided(ticket)) if ticket == won.ticket), "{answer:?}");
        assert_eq!((world.load(slot).await.version, world.load(slot).await.people()), (2, 0));
    }

    // Left out, it does not stand in the way of the others, and is answered from the log.
    world.run(&[world.book(slot, 2, 2), world.book(slot, 3, 2)]).await;
    let logged = world.store.decided(won.ticket).await.unwrap().unwrap();
    assert_eq!((logged.batch, logged.decision.reservation), (1, Some(first.id)));
}

/// A request that was entered again because the reply to its first entry was lost.
#[tokio::test]
async fn a_request_under_another_ticket_is_found_made() {
    let mut world = World::new(places(20)).await;
    let slot = world.slot(12);
    let first = world.book(slot, 1, 2);
    let made = done(&world.run(std::slice::from_ref(&first)).await[0]);
    let again = |world: &World| world.command(slot, 1, first.action.clone());

    // While it holds its place, the slot tells; nothing is stored but what was decided.
    let second = again(&world);
    assert_eq!(done(&world.run(&[second.clone(), world.book(slot, 2, 2)]).await[0]), made);
    let logged = world.store.decided(second.ticket).await.unwrap().unwrap();
    assert_eq!(
        (logged.batch, logged.decision.reservation, logged.decision.refused),
        (2, Some(made.id), None)
    );
    assert_eq!(world.row(made.id).await.unwrap(), *made);

    // Once it is over, the row tells, and says whose ticket stumbled over it.
    world.wait(7 * 60);
    world.run(&[world.book(slot, 3, 2)]).await;
    let third = again(&world);
    let commands = [world.book(slot, 4, 2), third.clone(), world.book(slot, 5, 2)];
    let (batch, _) = world.decide(&world.load(slot).await, &commands).await;
    let answer = world.store.commit(batch).await;
    assert!(matches!(answer, Err(CommitError::Made(ticket)) if ticket == third.ticket), "{answer:?}");
    assert_eq!(world.load(slot).await.version, 3);
    assert_eq!(world.row(made.id).await.unwrap().status(), Status::Expired);
}

#[tokio::test]
async fn a_key_belongs_to_one_request_of_one_person() {
    let world = World::new(places(20)).await;
    let slot = world.slot(12);
    let commit = async |who: u32, key: &str| {
        let command = world.book(slot, who, 1);
        let (mut batch, _) = world.decide(&world.load(slot).await, std::slice::from_ref(&command)).await;
        batch.keys.push(world.key(who, key, command.ticket));
        (command.ticket, world.store.commit(batch).await)
    };
    let (first, stored) = commit(1, "click").await;
    stored.unwrap();
    let found = world.store.request_key(person(1), "click".into()).await.unwrap();
    assert_eq!(found, Some(world.key(1, "click", first).request));
    for (who, key) in [(1, "clack"), (2, "click")] {
        assert_eq!(world.store.request_key(person(who), key.into()).await.unwrap(), None);
    }
    commit(2, "click").await.1.unwrap();

    world.run(&[world.cancel(&world.row(holder(&world, 1).await).await.unwrap())]).await;
    let (second, refused) = commit(1, "click").await;
    assert!(matches!(refused, Err(CommitError::KeyUsed(ticket)) if ticket == second), "{refused:?}");
    assert_eq!(world.load(slot).await.people(), 1);
    let found = world.store.request_key(person(1), "click".into()).await.unwrap();
    assert_eq!(found.unwrap().ticket, first);
}

async fn holder(world: &World, who: u32) -> ReservationId {
    world.load(world.slot(12)).await.of_person(person(who)).unwrap()
}

#[tokio::test]
async fn keys_are_forgotten_by_age_and_a_few_at_a_time() {
    let mut world = World::new(places(20)).await;
    let slot = world.slot(12);
    let start = world.now;
    for n in 0..5 {
        let mut batch = world.empty_batch(&world.load(slot).await);
        let ticket = TicketId::new(slot, 1, world.number());
        batch.keys = vec![world.key(1, &format!("a{n}"), ticket), world.key(1, &format!("b{n}"), ticket)];
        world.store.commit(batch).await.unwrap();
        world.wait(1);
    }
    let kept = async || {
        let mut kept = vec![];
        for n in 0..5 {
            kept.push(world.store.request_key(person(1), format!("a{n}")).await.unwrap().is_some());
        }
        kept
    };
    assert_eq!(world.store.forget_keys(start, 100).await.unwrap(), 0);
    let before = start + jiff::SignedDuration::from_secs(3);
    let mut forgotten = vec![];
    for _ in 0..3 {
        forgotten.push(world.store.forget_keys(before, 4).await.unwrap());
    }
    assert_eq!(forgotten, [4, 2, 0]);
    assert_eq!(kept().await, [false, false, false, true, true]);
}

#[tokio::test]
async fn every_ticket_is_found_in_the_log_of_many_batches() {
    let world = World::new(places(45)).await;
    let slot = world.slot(12);
    let (mut expected, mut seated) = (vec![], Vec::<Arc<Reservation>>::new());
    // Guests wait in a long line; owners come later and go first, sometimes without a guest beside them.
    let mut guests = (1..=60).map(|who| world.book(slot, who, 1)).collect::<Vec<_>>().into_iter();
    for batch in 1..=40 {
        let (owners, bookers) = match batch {
            _ if batch % 4 == 0 => (1, 0),
            _ if batch % 3 == 0 => (2, 2),
            _ => (0, 2),
        };
        let owners = seated.drain(..owners).map(|r| world.cancel(&r)).collect::<Vec<_>>();
        let commands: Vec<_> = owners.into_iter().chain(guests.by_ref().take(bookers)).collect();
        for (command, outcome) in commands.iter().zip(world.run(&commands).await) {
            expected.push((command.ticket, command.action.verdict(), batch));
            if let (Action::Book(_), Outcome::Done(reservation)) = (&command.action, outcome) {
                seated.push(reservation);
            }
        }
        // Numbers that nobody ever used lie between.
        world.number();
    }
    assert_eq!(expected.len(), 60 + 10 + 2 * 10);
    for (ticket, verdict, batch) in expected {
        let logged = world.store.decided(ticket).await.unwrap().unwrap();
        assert_eq!((logged.decision.ticket, logged.decision.verdict), (Some(ticket), verdict));
        assert_eq!(logged.batch, batch, "{ticket:?}");
    }
}

#[tokio::test]
async fn a_ticket_that_was_never_decided_is_not_found() {
    let world = World::new(places(20)).await;
    let (slot, other) = (world.slot(12), world.slot(13));
    let before = world.book(slot, 1, 1);
    let first = world.seat(slot, 2, 1).await;
    let between = world.book(slot, 3, 1);
    world.run(&[world.cancel(&first), world.book(slot, 4, 1)]).await;
    let after = world.book(slot, 5, 1);
    let number = first.ticket.number();
    let nobody =
        [TicketId::new(slot, 0, number), TicketId::new(slot, 2, number), TicketId::new(other, 1, number)];
    for ticket in [before.ticket, between.ticket, after.ticket].into_iter().chain(nobody) {
        assert_eq!(world.store.decided(ticket).await.unwrap(), None, "{ticket:?}");
    }
    assert!(world.store.decided(first.ticket).await.unwrap().is_some());
}

/// After a line was lost, people come back one by one with the tickets they hold, among those of the line's new life.
#[tokio::test]
async fn tickets_of_an_older_life_are_found_among_those_of_a_newer_one() {
    let world = World::new(places(100)).await;
    let slot = world.slot(12);
    let mut tickets = vec![];
    for who in 1..=20 {
        let straggler = world.book(slot, who, 1);
        let mut newcomer = world.book(slot, 100 + who, 1);
        newcomer.ticket = TicketId::new(slot, 2, u64::from(who));
        tickets.extend([straggler.ticket, newcomer.ticket]);
        world.run(&[straggler, newcomer]).await;
    }
    for ticket in tickets {
        let logged = world.store.decided(ticket).await.unwrap();
        assert_eq!(logged.and_then(|logged| logged.decision.ticket), Some(ticket));
    }
}

/// What the log says of these tickets: who was decided in which batch, by number.
async fn among(world: &World, tickets: &[TicketId]) -> Vec<(TicketId, u64, bool)> {
    let found = world.store.decided_among(tickets.to_vec()).await.unwrap();
    let told = found
        .into_iter()
        .map(|logged| (logged.decision.ticket.unwrap(), logged.batch, logged.decision.refused.is_none()));
    let mut told: Vec<_> = told.collect();
    told.sort_unstable();
    told
}

#[tokio::test]
async fn a_batch_that_another_runner_decided_in_part_is_found_in_part() {
    let world = World::new(places(4)).await;
    let slot = world.slot(12);
    let seated = [world.seat(slot, 1, 1).await, world.seat(slot, 2, 1).await];
    let owners = seated.map(|r| world.cancel(&r));
    let guests = (3..=10).map(|who| world.book(slot, who, 2)).collect::<Vec<_>>();
    let tickets = |commands: &[Command]| commands.iter().map(|command| command.ticket).collect::<Vec<_>>();
    let everybody = [tickets(&owners), tickets(&guests)].concat();
    assert_eq!(among(&world, &everybody).await, [], "nobody is decided yet");
    assert_eq!(among(&world, &[]).await, []);

    // One runner had the first owner and three guests, the next one the second owner and the two guests that follow.
    world.run(&[owners[..1].to_vec(), guests[..3].to_vec()].concat()).await;
    world.run(&[owners[1..].to_vec(), guests[3..5].to_vec()].concat()).await;
    let first = |n: usize, done| (guests[n].ticket, 3, done);
    let second = |n: usize, done| (guests[n].ticket, 4, done);
    let decided = [
        (owners[0].ticket, 3, true),
        (owners[1].ticket, 4, true),
        first(0, true),
        first(1, false),
        first(2, false),
        second(3, true),
        second(4, false),
    ];
    assert_eq!(among(&world, &everybody).await, decided);
    assert_eq!(among(&world, &tickets(&owners)).await, decided[..2]);
    assert_eq!(among(&world, &tickets(&guests[1..4])).await, decided[3..6]);
    assert_eq!(among(&world, &tickets(&guests[2..])).await, decided[4..]);
    assert_eq!(among(&world, &tickets(&guests[5..])).await, []);
    let (one, twice) = (guests[2].ticket, vec![guests[2].ticket; 2]);
    assert_eq!(among(&world, &twice).await, decided[4..5]);
    let logged = world.store.decided_among(vec![one]).await.unwrap();
    assert_eq!(logged.into_iter().next(), world.store.decided(one).await.unwrap());

    let elsewhere: Vec<_> =
        guests.iter().map(|g| TicketId::new(world.slot(13), 1, g.ticket.number())).collect();
    let another_life: Vec<_> = guests.iter().map(|g| TicketId::new(slot, 2, g.ticket.number())).collect();
    for nobody in [elsewhere, another_life] {
        assert_eq!(among(&world, &nobody).await, []);
    }
}

#[tokio::test]
async fn stragglers_of_an_older_life_are_found_beside_those_of_a_newer_one() {
    let world = World::new(places(100)).await;
    let slot = world.slot(12);
    let (mut decided, mut missing) = (vec![], vec![]);
    for who in 1..=20 {
        let straggler = world.book(slot, who, 1);
        let mut newcomer = world.book(slot, 100 + who, 1);
        newcomer.ticket = TicketId::new(slot, 2, u64::from(2 * who));
        missing
            .extend([TicketId::new(slot, 1, world.number()), TicketId::new(slot, 2, u64::from(2 * who + 1))]);
        decided.extend([(straggler.ticket, who.into(), true), (newcomer.ticket, who.into(), true)]);
        world.run(&[straggler, newcomer]).await;
    }
    decided.sort_unstable();
    let asked: Vec<_> = decided.iter().map(|(ticket, ..)| *ticket).chain(missing.iter().copied()).collect();
    assert_eq!(among(&world, &asked).await, decided);
    assert_eq!(among(&world, &missing).await, []);
    // One of each life, from the two ends of the log.
    let ends = [decided[0], decided[39]];
    assert_eq!(among(&world, &ends.map(|(ticket, ..)| ticket)).await, ends);
}
