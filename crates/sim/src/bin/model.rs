//! `model`: searches the protocol exhaustively and prints what it found.

use evenkeel_core::job::Delivery;
use evenkeel_sim::model::{Flaw, Order, Scope, explore};

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let faults: u8 = args.get(1).and_then(|a| a.parse().ok()).unwrap_or(1);
    let delivery = if args.get(2).is_some_and(|a| a == "least") { Delivery::AtLeastOnce } else { Delivery::AtMostOnce };
    let order = if args.get(3).is_some_and(|a| a == "breadth") { Order::Breadth } else { Order::Depth };
    let flaw = args.get(4).and_then(|a| a.parse::<usize>().ok()).map(|i| Flaw::ALL[i]);
    let scope = Scope { faults, flaw, warm: args.get(5).is_none(), split: args.get(5).is_some(), stagger: if args.get(5).is_some() { 0 } else { 300 }, ..Scope::new(delivery) };
    println!("{}", explore(&scope, order));
}
