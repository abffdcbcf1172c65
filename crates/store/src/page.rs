//! Pages of lists, and the statements that read them.
//!
//! A page begins after a key, not at a number: (time, id) of the row at its edge. Rows that came at
//! the same moment are told apart by their ids, so none is skipped or shown twice, whatever comes in
//! meanwhile (B53).

use std::fmt::Write;

use thiserror::Error;

use crate::error::{DatabaseError, refuse_nul};

/// Rows of a page when nothing is asked for.
const DEFAULT_SIZE: u32 = 50;
/// Rows of a page at most.
const LARGEST_SIZE: u32 = 500;

/// Which page of a list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PageRequest {
    /// Rows wanted: 50 for zero, at most 500.
    pub size: u32,
    /// [`Page::next`] or [`Page::previous`] of the page before; none for the first page.
    pub token: Option<String>,
}

impl PageRequest {
    fn size(&self) -> usize {
        let size = match self.size {
            0 => DEFAULT_SIZE,
            size => size.min(LARGEST_SIZE),
        };
        size as usize
    }
}

/// One page, newest first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page<T> {
    /// The rows.
    pub items: Vec<T>,
    /// Token of the page after this one, towards older rows; none at the end.
    pub next: Option<String>,
    /// Token of the page before this one, towards newer rows; none where there was no row before
    /// this page when it was asked for.
    pub previous: Option<String>,
}

/// Why a page could not be read.
#[derive(Debug, Error)]
pub enum ListError {
    /// The page token is not one of this list.
    #[error("the page token is not one that this list gave out; leave it out to start anew")]
    MalformedPage,
    /// The database did not answer.
    #[error(transparent)]
    Database(#[from] DatabaseError),
}

impl ListError {
    /// The stable code that users see.
    pub const fn code(&self) -> &'static str {
        match self {
            ListError::MalformedPage => "page.malformed",
            ListError::Database(error) => error.code(),
        }
    }
}

impl From<sqlx::Error> for ListError {
    fn from(error: sqlx::Error) -> Self {
        ListError::Database(error.into())
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Direction {
    Older,
    Newer,
}

/// The edge of a page.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Edge {
    direction: Direction,
    at: i64,
    id: String,
}

/// The key of a list's rows.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Key {
    /// The list, so that a token of another one is refused.
    pub(crate) list: &'static str,
    pub(crate) at: &'static str,
    pub(crate) id: &'static str,
}

/// A value of a statement.
#[derive(Debug, Clone)]
pub(crate) enum Value {
    Text(String),
    Int(i64),
}

/// A statement that reads one page.
#[derive(Debug)]
pub(crate) struct Select {
    pub(crate) sql: String,
    pub(crate) values: Vec<Value>,
    key: Key,
    edge: Option<Edge>,
    size: usize,
}

impl Select {
    /// Begins with a text that ends in `WHERE column = $1`, and that value.
    pub(crate) fn new(
        sql: &str,
        first: &str,
        key: Key,
        request: &PageRequest,
    ) -> Result<Self, ListError> {
        let edge = match &request.token {
            None => None,
            Some(token) => Some(decode(key.list, token).ok_or(ListError::MalformedPage)?),
        };
        Ok(Self {
            sql: sql.to_owned(),
            values: vec![Value::Text(first.to_owned())],
            key,
            edge,
            size: request.size(),
        })
    }

    /// The same for a statement that reads all there is.
    pub(crate) fn unpaged(sql: &str, first: &str) -> Self {
        let key = Key {
            list: "",
            at: "",
            id: "",
        };
        Self {
            sql: sql.to_owned(),
            values: vec![Value::Text(first.to_owned())],
            key,
            edge: None,
            size: 0,
        }
    }

    fn bind(&mut self, value: Value) {
        self.values.push(value);
        write!(self.sql, "${}", self.values.len()).expect("strings grow");
    }

    /// `AND condition $n`, if there is a value.
    pub(crate) fn and_text(&mut self, condition: &str, value: Option<&str>) {
        if let Some(value) = value {
            write!(self.sql, " AND {condition} ").expect("strings grow");
            self.bind(Value::Text(value.to_owned()));
        }
    }

    /// `OR condition $n`.
    pub(crate) fn or_text(&mut self, condition: &str, value: &str) {
        write!(self.sql, " OR {condition} ").expect("strings grow");
        self.bind(Value::Text(value.to_owned()));
    }

    /// Closes a parenthesis that a condition has opened.
    pub(crate) fn close(&mut self) {
        self.sql.push(')');
    }

    /// `AND condition $n`, if there is a value.
    pub(crate) fn and_int(&mut self, condition: &str, value: Option<i64>) {
        if let Some(value) = value {
            write!(self.sql, " AND {condition} ").expect("strings grow");
            self.bind(Value::Int(value));
        }
    }

    /// `AND condition`.
    pub(crate) fn and(&mut self, condition: &str) {
        write!(self.sql, " AND {condition}").expect("strings grow");
    }

    /// `AND column IN (…)`, if there are values.
    pub(crate) fn and_any<'a>(&mut self, column: &str, values: impl IntoIterator<Item = &'a str>) {
        let mut open = false;
        for value in values {
            if open {
                self.sql.push_str(", ");
            } else {
                write!(self.sql, " AND {column} IN (").expect("strings grow");
                open = true;
            }
            self.bind(Value::Text(value.to_owned()));
        }
        if open {
            self.sql.push(')');
        }
    }

    /// Adds the edge, the order and the limit: one row more than the page, to know whether there is
    /// another one. Refuses values with a NUL.
    pub(crate) fn finish(&mut self) -> Result<(), DatabaseError> {
        let Key { at, id, .. } = self.key;
        let newer = self.direction() == Direction::Newer;
        if let Some(edge) = self.edge.clone() {
            let than = if newer { '>' } else { '<' };
            write!(self.sql, " AND ({at}, {id}) {than} (").expect("strings grow");
            self.bind(Value::Int(edge.at));
            self.sql.push_str(", ");
            self.bind(Value::Text(edge.id));
            self.sql.push(')');
        }
        let order = if newer { "ASC" } else { "DESC" };
        write!(self.sql, " ORDER BY {at} {order}, {id} {order} LIMIT ").expect("strings grow");
        let limit = i64::try_from(self.size).unwrap_or(i64::MAX - 1) + 1;
        self.bind(Value::Int(limit));
        self.refuse_nul()
    }

    /// Ends a statement that reads all there is. Refuses values with a NUL.
    pub(crate) fn finish_with(&mut self, end: &str) -> Result<(), DatabaseError> {
        self.sql.push_str(end);
        self.refuse_nul()
    }

    fn refuse_nul(&self) -> Result<(), DatabaseError> {
        for value in &self.values {
            if let Value::Text(text) = value {
                refuse_nul(&[("filter", text)])?;
            }
        }
        Ok(())
    }

    fn direction(&self) -> Direction {
        self.edge
            .as_ref()
            .map_or(Direction::Older, |edge| edge.direction)
    }

    /// Makes the page of what was read; `key` tells time and id of a row.
    pub(crate) fn page<T>(&self, mut items: Vec<T>, key: impl Fn(&T) -> (i64, String)) -> Page<T> {
        let more = items.len() > self.size;
        items.truncate(self.size);
        let direction = self.direction();
        if direction == Direction::Newer {
            items.reverse();
        }
        let token = |row: Option<&T>, direction| {
            row.map(|row| {
                let (at, id) = key(row);
                encode(self.key.list, &Edge { direction, at, id })
            })
        };
        let (older, newer) = match direction {
            Direction::Older => (more, self.edge.is_some()),
            Direction::Newer => (true, more),
        };
        Page {
            next: token(items.last(), Direction::Older).filter(|_| older),
            previous: token(items.first(), Direction::Newer).filter(|_| newer),
            items,
        }
    }
}

fn encode(list: &str, edge: &Edge) -> String {
    let direction = match edge.direction {
        Direction::Older => 'o',
        Direction::Newer => 'n',
    };
    hex::encode(format!("{list}:{direction}:{}:{}", edge.at, edge.id))
}

fn decode(list: &str, token: &str) -> Option<Edge> {
    let text = String::from_utf8(hex::decode(token).ok()?).ok()?;
    let mut parts = text.splitn(4, ':');
    if parts.next()? != list {
        return None;
    }
    let direction = match parts.next()? {
        "o" => Direction::Older,
        "n" => Direction::Newer,
        _ => return None,
    };
    let at = parts.next()?.parse().ok()?;
    let id = parts.next().filter(|id| !id.contains('\0'))?.to_owned();
    Some(Edge { direction, at, id })
}

/// Runs a [`Select`] on whichever database it is.
macro_rules! fetch_select {
    ($database:expr, $select:expr, $record:ty) => {
        $crate::database::on_both!($database, |pool| {
            let mut query = sqlx::query_as::<_, $record>(sqlx::AssertSqlSafe($select.sql.as_str()));
            for value in &$select.values {
                query = match value {
                    $crate::page::Value::Text(text) => query.bind(text.as_str()),
                    $crate::page::Value::Int(int) => query.bind(*int),
                };
            }
            query.fetch_all(pool).await
        })
    };
}

pub(crate) use fetch_select;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_of_another_list_or_of_nobody_is_refused() {
        let edge = Edge {
            direction: Direction::Newer,
            at: -3,
            id: "run_a:b".into(),
        };
        let token = encode("runs", &edge);
        assert_eq!(decode("runs", &token), Some(edge));
        for bad in ["", "zz", "7275", &token[2..], &hex::encode("runs:x:1:a")] {
            assert_eq!(decode("runs", bad), None, "{bad}");
        }
        assert_eq!(decode("approvals", &token), None);
    }
}
