//! Contenders on one hot slot: run in turn, round after round, and set beside each other.

use crate::{Result, median};

/// A contender: its name, which others it is compared with (the raw limit, itself without batches), and how it is run.
pub type Contender<'a> = (&'static str, Option<(usize, usize)>, Box<dyn Fn() -> Result<f64> + 'a>);

/// Runs everybody whose name contains `only`, in alternating order, and prints what they reached.
pub fn run<const N: usize>(contenders: &[Contender<'_>; N], rounds: usize, only: &str) -> Result<()> {
    let mut rates: [Vec<f64>; N] = std::array::from_fn(|_| Vec::new());
    for round in 0..rounds {
        for turn in 0..N {
            let n = (turn + round) % N;
            if contenders[n].0.contains(only) {
                rates[n].push(contenders[n].2()?);
            }
        }
    }
    if !only.is_empty() {
        for ((name, ..), rates) in contenders.iter().zip(&rates).filter(|(_, rates)| !rates.is_empty()) {
            println!("{name}: {rates:.0?}");
        }
        return Ok(());
    }
    let spread = |rates: &[f64]| rates.iter().fold((f64::MAX, 0.0_f64), |(l, h), r| (l.min(*r), h.max(*r)));
    let medians = rates.each_mut().map(|rates| median(rates));
    println!(
        "| durable reservations on one hot slot | a second (median) | spread | of raw | against batch size 1 |"
    );
    println!("| --- | ---: | ---: | ---: | ---: |");
    for (((name, beside, _), rates), median) in contenders.iter().zip(&rates).zip(medians) {
        let (low, high) = spread(rates);
        let (of_raw, times) = beside.map_or_else(Default::default, |(raw, single)| {
            let of_raw = format!("{:.0} %", 100.0 * median / medians[raw]);
            (of_raw, format!("{:.1} ×", median / medians[single]))
        });
        println!("| {name} | {median:.0} | {low:.0}–{high:.0} | {of_raw} | {times} |");
    }
    Ok(())
}
