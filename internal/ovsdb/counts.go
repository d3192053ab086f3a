// SPDX-License-Identifier: Apache-2.0

package ovsdb

import "sync/atomic"

// Counts is what a Client has done since New.
type Counts struct {
	// BytesRead and BytesWritten are those of all connections, without what TLS adds.
	BytesRead, BytesWritten uint64
	// Contents counts how often a server has sent all contents, and Resumed how often one has
	// sent only what had changed.
	Contents, Resumed uint64
	// ConditionChanges counts the requests that change conditions.
	ConditionChanges uint64
}

// Plus returns the sums of two Counts.
func (c Counts) Plus(d Counts) Counts {
	return Counts{
		BytesRead: c.BytesRead + d.BytesRead, BytesWritten: c.BytesWritten + d.BytesWritten,
		Contents: c.Contents + d.Contents, Resumed: c.Resumed + d.Resumed,
		ConditionChanges: c.ConditionChanges + d.ConditionChanges,
	}
}

// counts is Counts while it counts.
type counts struct {
	read, written, contents, resumed, changes atomic.Uint64
}

// Counts returns what the Client has done so far.
func (c *Client) Counts() Counts {
	return Counts{
		BytesRead: c.counts.read.Load(), BytesWritten: c.counts.written.Load(),
		Contents: c.counts.contents.Load(), Resumed: c.counts.resumed.Load(),
		ConditionChanges: c.counts.changes.Load(),
	}
}
