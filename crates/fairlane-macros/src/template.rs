//! Key templates: `"seat:{seat_id}"`.

use proc_macro2::Span;
use syn::{Error, LitStr, Result};

/// A key with holes in it.
pub(crate) struct Template {
    pub(crate) span: Span,
    /// The text as `format!` wants it: each hole is `{}`, braces are doubled.
    pub(crate) format: String,
    pub(crate) holes: Vec<Hole>,
}

/// An argument, or something inside of one.
pub(crate) struct Hole {
    /// `order.lines` of `order.lines[].sku`; names and tuple indices.
    pub(crate) path: Vec<String>,
    /// `sku` of `order.lines[].sku`; `None` without `[]`.
    pub(crate) of_each: Option<Vec<String>>,
}

impl Template {
    pub(crate) fn parse(literal: &LitStr) -> Result<Self> {
        let text = literal.value();
        let wrong = |message: &str| Error::new(literal.span(), message);
        let (mut format, mut holes) = (String::new(), Vec::new());
        let mut rest = text.as_str();
        while let Some(at) = rest.find(['{', '}']) {
            let (before, brace) = rest.split_at(at);
            format.push_str(before);
            if brace.starts_with("{{") || brace.starts_with("}}") {
                format.push_str(&brace[..2]);
                rest = &brace[2..];
            } else if brace.starts_with('}') {
                return Err(wrong("a `}` without a `{`; write `}}` for a brace"));
            } else {
                let end =
                    brace.find('}').ok_or_else(|| wrong("a `{` without a `}`; write `{{` for a brace"))?;
                holes.push(Hole::parse(&brace[1..end]).map_err(|message| wrong(&message))?);
                format.push_str("{}");
                rest = &brace[end + 1..];
            }
        }
        format.push_str(rest);
        if text.trim().is_empty() {
            return Err(wrong("the key is blank"));
        }
        if holes.iter().filter(|hole| hole.of_each.is_some()).count() > 1 {
            return Err(wrong("only one `[]` per key: which elements should go together?"));
        }
        Ok(Self { span: literal.span(), format, holes })
    }
}

impl Hole {
    fn parse(text: &str) -> std::result::Result<Self, String> {
        let mut halves = text.split("[]");
        let path = segments(halves.next().unwrap_or_default(), text)?;
        let of_each = match halves.next() {
            None => None,
            Some("") => Some(Vec::new()),
            Some(rest) => {
                let rest =
                    rest.strip_prefix('.').ok_or_else(|| format!("`{{{text}}}`: expected `.` after `[]`"))?;
                Some(segments(rest, text)?)
            }
        };
        if halves.next().is_some() {
            return Err(format!("`{{{text}}}`: only one `[]` is possible"));
        }
        if path[0].starts_with(|c: char| c.is_ascii_digit()) {
            return Err(format!("`{{{text}}}` does not start with an argument's name"));
        }
        Ok(Self { path, of_each })
    }
}

fn segments(path: &str, whole: &str) -> std::result::Result<Vec<String>, String> {
    path.split('.')
        .map(|segment| {
            let name = segment.trim();
            let fits = !name.is_empty() && name.chars().all(|c| c == '_' || c.is_alphanumeric());
            if fits {
                Ok(name.to_owned())
            } else {
                Err(format!("`{{{whole}}}` is not an argument or a field of one"))
            }
        })
        .collect()
}
