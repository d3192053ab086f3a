// SPDX-License-Identifier: Apache-2.0

// Package saved writes the rows of databases to a file for the next process, and reads them.
//
//	magic, version, lengths, SHA-256 of the rest
//	JSON about the rows
//	rows by database and table, encoded by ovsdb.Mirror
//
// Write is atomic. Read accepts only files that no other user can read or write. Expected decides when a file
// is usable, and when to write.
package saved
