// SPDX-License-Identifier: Apache-2.0

package ovsdb

import "sync/atomic"

type Counts struct {
	// BytesRead and BytesWritten exclude the overhead of TLS.
	BytesRead, BytesWritten uint64
	// Contents counts syncs by all contents, Resumed syncs by changes only.
	Contents, Resumed uint64
	ConditionChanges  uint64
}

func (c Counts) Plus(d Counts) Counts {
	return Counts{
		BytesRead: c.BytesRead + d.BytesRead, BytesWritten: c.BytesWritten + d.BytesWritten,
		Contents: c.Contents + d.Contents, Resumed: c.Resumed + d.Resumed,
		ConditionChanges: c.ConditionChanges + d.ConditionChanges,
	}
}

type counts struct {
	read, written, contents, resumed, changes atomic.Uint64
}

func (c *Client) Counts() Counts {
	return Counts{
		BytesRead: c.counts.read.Load(), BytesWritten: c.counts.written.Load(),
		Contents: c.counts.contents.Load(), Resumed: c.counts.resumed.Load(),
		ConditionChanges: c.counts.changes.Load(),
	}
}
