//! The function, written anew.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{format_ident, quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{Error, FnArg, ItemFn, Member, Pat, Result, ReturnType};

use crate::arguments::{self, Arguments};
use crate::template::{Hole, Template};

pub(crate) fn expand(arguments: TokenStream, function: TokenStream) -> Result<TokenStream> {
    let function: ItemFn = syn::parse2(function)?;
    let signature = &function.sig;
    if signature.asyncness.is_none() {
        return Err(Error::new(
            signature.fn_token.span,
            "`#[locked]` waits, so the function must be `async`",
        ));
    }
    let ReturnType::Type(_, output) = &signature.output else {
        let message = "`#[locked]` can fail, so the function must return a `Result` whose error is `From<fairlane::Error>`";
        return Err(Error::new(signature.ident.span(), message));
    };
    let Arguments { client, keys, wait, lease, sort } = arguments::parse(arguments)?;
    let names = names(&function);
    let pushes = keys.iter().map(|key| push(key, &names)).collect::<Result<Vec<_>>>()?;
    let (wait, lease) = (millis(wait, &client)?, millis(lease, &client)?);
    // Spanned like the return type: if the error cannot be converted, that is where to look.
    let convert = quote_spanned!(shown_at(output.span())=> ::core::convert::From::from(error));
    let ItemFn { attrs, vis, sig, block, .. } = &function;
    Ok(quote! {
        #(#attrs)*
        #vis #sig {
            let __fairlane_keys = (|| {
                let mut __fairlane_keys = ::std::vec::Vec::<::std::string::String>::new();
                #(#pushes)*
                ::core::result::Result::<_, ::fairlane::Error>::Ok(__fairlane_keys)
            })();
            let __fairlane_held =
                match ::fairlane::locked::acquire(&#client, __fairlane_keys, #wait, #lease, #sort).await {
                    ::core::result::Result::Ok(held) => held,
                    ::core::result::Result::Err(error) => {
                        return ::core::result::Result::Err(#convert);
                    }
                };
            let __fairlane_output: #output = async move #block.await;
            match (__fairlane_output, __fairlane_held.release().await) {
                (::core::result::Result::Ok(_), ::core::result::Result::Err(error)) => {
                    ::core::result::Result::Err(#convert)
                }
                (output, _) => output,
            }
        }
    })
}

/// What a template may start with.
fn names(function: &ItemFn) -> Vec<String> {
    let name = |input: &FnArg| match input {
        FnArg::Receiver(_) => Some("self".to_owned()),
        FnArg::Typed(argument) => match &*argument.pat {
            Pat::Ident(pattern) => Some(pattern.ident.to_string()),
            _ => None,
        },
    };
    function.sig.inputs.iter().filter_map(name).collect()
}

fn push(key: &Template, names: &[String]) -> Result<TokenStream> {
    for hole in &key.holes {
        let root = &hole.path[0];
        if !names.contains(root) {
            let known = if names.is_empty() {
                "it has none".to_owned()
            } else {
                format!("it has `{}`", names.join("`, `"))
            };
            return Err(Error::new(
                key.span,
                format!("`{root}` is not an argument of this function; {known}"),
            ));
        }
    }
    let span = shown_at(key.span);
    let format = &key.format;
    let values = key.holes.iter().map(|hole| {
        let value = match &hole.of_each {
            None => place(&hole.path, span),
            Some(fields) => member(format_ident!("__fairlane_each", span = span), fields, span),
        };
        quote_spanned!(span=> ::fairlane::locked::part(&#value)?)
    });
    let push = quote_spanned!(span=> __fairlane_keys.push(::std::format!(#format, #(#values),*)););
    let each = key.holes.iter().find(|hole| hole.of_each.is_some());
    Ok(match each {
        None => push,
        Some(Hole { path, .. }) => {
            let collection = place(path, span);
            quote_spanned!(span=> for __fairlane_each in #collection.iter() { #push })
        }
    })
}

/// Where errors point, for code that is nevertheless the macro's own: lints leave it alone.
fn shown_at(span: Span) -> Span {
    span.resolved_at(Span::call_site())
}

fn place(path: &[String], span: Span) -> TokenStream {
    member(Ident::new(&path[0], span), &path[1..], span)
}

fn member(root: Ident, fields: &[String], span: Span) -> TokenStream {
    let fields = fields.iter().map(|field| match field.parse::<u32>() {
        Ok(index) => Member::Unnamed(syn::Index { index, span }),
        Err(_) => Member::Named(Ident::new(field, span)),
    });
    quote_spanned!(span=> #root #(.#fields)*)
}

fn millis(duration: std::time::Duration, at: &impl Spanned) -> Result<u64> {
    u64::try_from(duration.as_millis()).map_err(|_| Error::new(at.span(), "too long a duration"))
}
