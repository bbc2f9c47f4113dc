//! `#[locked(...)]`: a lock declared on a function, keyed by its arguments.
//!
//! Use it as `fairlane::locked`, with the feature `macros`; the page of that module describes it. This crate reads the
//! attribute (`arguments`), the key templates (`template`) and the function, and writes the function anew (`expand`).

mod arguments;
mod expand;
mod template;

use proc_macro::TokenStream;

/// Runs an async function while holding the locks that its arguments name.
///
/// ```text
/// #[fairlane::locked(client = self.locks, key = "seat:{seat_id}", wait = "0", lease = "3s")]
/// async fn hold(&self, seat_id: u64) -> Result<Hold, BookingError> { … }
/// ```
///
/// | argument | meaning | default |
/// | --- | --- | --- |
/// | `client` | an expression that is a `fairlane::Client` or a reference to one; arguments and `self` are in scope | required |
/// | `key` | a template; may be given several times | at least one |
/// | `wait` | `"0"`, `"250ms"`, `"2s"`, `"1m"`: how long to wait for all keys together | `"2s"` |
/// | `lease` | a fixed lease; `"0"` renews itself | `"0"` |
/// | `sort` | whether keys are taken in sorted order, which is what prevents deadlock | `true` |
///
/// In a template, `{seat_id}` is an argument, `{order.venue.id}` a field of one, and `{seats[]}` or
/// `{order.lines[].sku}` makes one key for each element; anything with `iter()` will do. `{{` and `}}` are braces. Values
/// are trimmed, and equal keys are taken once.
///
/// The function must be async and return a `Result` whose error is `From<fairlane::Error>`: that is how "busy" (`wait` is
/// zero and a key is taken), "timed out", an empty value, no key at all and a lease lost before the end reach the caller.
/// If the function itself fails, its own error is returned.
#[proc_macro_attribute]
pub fn locked(arguments: TokenStream, function: TokenStream) -> TokenStream {
    let expanded = expand::expand(arguments.into(), function.clone().into());
    // The function stays even where the attribute is wrong, so that its callers are not reported as well.
    expanded.map(TokenStream::from).unwrap_or_else(|error| {
        let mut tokens = TokenStream::from(error.to_compile_error());
        tokens.extend(function);
        tokens
    })
}
