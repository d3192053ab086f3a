// SPDX-License-Identifier: Apache-2.0

package ovsdb

// Op is a change of a row. A row that begins to match the conditions is inserted, a row that ceases to match
// is deleted.
type Op uint8

// Rows of the initial contents are inserts.
const (
	Insert Op = iota + 1
	Modify
	Delete
)

func (op Op) String() string {
	switch op {
	case Insert:
		return "insert"
	case Modify:
		return "modify"
	case Delete:
		return "delete"
	}
	return "invalid"
}

// Receiver gets the rows, on the goroutine of Client.Run. A slow Receiver delays echo replies, so the server
// may close the connection.
type Receiver interface {
	// Reset begins all contents, which replace everything at the next Commit. A new connection to a server
	// that remembers the Receiver's rows begins without Reset.
	Reset()
	// An error ends the connection, and the next one begins with Reset.
	Row(table string, id UUID, op Op, row *Row) error
	// Conditions reports that the rows reflect the SetConditions that returned gen, and all earlier ones; 0
	// is Config. Commit follows.
	Conditions(gen uint64)
	Commit()
	Ended()
	// State reports the first Commit of a connection, its end, and another failure of an endpoint.
	State(s State)
}

type State struct {
	Endpoint string
	// Synced is set from the first Commit of a connection to its end.
	Synced bool
	Err    error
}
