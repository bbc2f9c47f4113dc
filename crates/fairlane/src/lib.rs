//! Fair coordination: lines, locks and limits that serve in order of arrival.
