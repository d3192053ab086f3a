// SPDX-License-Identifier: Apache-2.0

// Package saved writes the rows of databases to a file for the next process, and reads them.
//
//	magic, version, lengths, SHA-256 of the rest
//	JSON about the rows
//	rows by database and table, encoded by ovsdb.Mirror
//
// Write is atomic. It writes the new file beside the old one, flushes it to the disk and renames it. Read accepts
// only files that no other user can read or write. The package does not interpret rows. Expected decides when a
// file is usable, and when to write.
package saved
