// SPDX-License-Identifier: Apache-2.0

// Package saved keeps the rows of databases in a file, for the next process.
//
//	magic, version, lengths, SHA-256 of what follows
//	what the rows are: when, where and of what they were saved, as JSON
//	the rows: by database and table, as ovsdb.Mirror has them
//
// A file is replaced as a whole: it is written beside the old one, flushed to the disk and
// renamed. Read takes a file of our own user only that nobody else can read or write. It knows
// nothing of what the rows mean. Expected has the rules for a file that is of use, and for when to write.
package saved
