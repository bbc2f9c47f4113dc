//! The rules of booking, without I/O: what may be booked, by whom, for how much.
