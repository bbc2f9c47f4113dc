//! What stands in the parentheses of the attribute.

use std::time::Duration;

use proc_macro2::{Span, TokenStream};
use syn::parse::{Parse, ParseStream};
use syn::{Error, Expr, Ident, LitBool, LitStr, Result, Token};

use crate::template::Template;

pub(crate) struct Arguments {
    pub(crate) client: Expr,
    pub(crate) keys: Vec<Template>,
    pub(crate) wait: Duration,
    pub(crate) lease: Duration,
    pub(crate) sort: bool,
}

const DEFAULT_WAIT: Duration = Duration::from_secs(2);

pub(crate) fn parse(tokens: TokenStream) -> Result<Arguments> {
    syn::parse2(tokens)
}

impl Parse for Arguments {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        let (mut client, mut keys) = (None, Vec::new());
        let (mut wait, mut lease, mut sort) = (None, None, None);
        while !input.is_empty() {
            let name: Ident = input.parse()?;
            input.parse::<Token![=]>()?;
            match name.to_string().as_str() {
                "client" => once(&mut client, &name, input.parse()?)?,
                "key" => keys.push(Template::parse(&input.parse()?)?),
                "wait" => once(&mut wait, &name, duration(&input.parse()?)?)?,
                "lease" => once(&mut lease, &name, duration(&input.parse()?)?)?,
                "sort" => once(&mut sort, &name, input.parse::<LitBool>()?.value)?,
                _ => {
                    let known = "`client`, `key`, `wait`, `lease` or `sort`";
                    return Err(Error::new(
                        name.span(),
                        format!("unknown argument `{name}`; expected {known}"),
                    ));
                }
            }
            if !input.is_empty() {
                input.parse::<Token![,]>()?;
            }
        }
        let missing = |message: &str| Error::new(Span::call_site(), message);
        let client =
            client.ok_or_else(|| missing("`client = …` is missing: the fairlane::Client to lock with"))?;
        if keys.is_empty() {
            return Err(missing("no key to lock: give at least one `key = \"…\"`"));
        }
        Ok(Self {
            client,
            keys,
            wait: wait.unwrap_or(DEFAULT_WAIT),
            lease: lease.unwrap_or_default(),
            sort: sort.unwrap_or(true),
        })
    }
}

fn once<T>(slot: &mut Option<T>, name: &Ident, value: T) -> Result<()> {
    match slot.replace(value) {
        Some(_) => Err(Error::new(name.span(), format!("`{name}` is given twice"))),
        None => Ok(()),
    }
}

/// `"0"`, `"250ms"`, `"2s"`, `"1m"`.
fn duration(literal: &LitStr) -> Result<Duration> {
    let text = literal.value();
    let split = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let wrong = || Error::new(literal.span(), "not a duration; write \"0\", \"250ms\", \"2s\" or \"1m\"");
    let number: u64 = number.parse().map_err(|_| wrong())?;
    match unit {
        "" if number == 0 => Ok(Duration::ZERO),
        "ms" => Ok(Duration::from_millis(number)),
        "s" => Ok(Duration::from_secs(number)),
        "m" => number.checked_mul(60).map(Duration::from_secs).ok_or_else(wrong),
        _ => Err(wrong()),
    }
}
