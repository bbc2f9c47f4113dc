//! Plots as plain SVG, for a README: readable on light and dark pages, without a script or a font of their own.
//!
//! One colour is maitred's, everybody else is grey, and limits are outlines. Each drawing brings its own background, since
//! a page's theme and a browser's are not always the same.

mod axis;
mod bars;
mod canvas;
mod lines;

pub use axis::Scale;
pub use bars::{Bar, Bars};
pub use lines::{Line, Lines};

/// Whose figure it is, which is how it looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// maitred's.
    Ours,
    /// Somebody else's.
    Other,
    /// What nobody can do better than.
    Limit,
}

impl Kind {
    fn class(self) -> &'static str {
        match self {
            Self::Ours => "ours",
            Self::Other => "other",
            Self::Limit => "limit",
        }
    }
}
