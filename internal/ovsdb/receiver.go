// SPDX-License-Identifier: Apache-2.0

package ovsdb

// Op is what happened to a row, as seen through the conditions: a row that comes
// to match is inserted, one that ceases to match is deleted.
type Op uint8

// The operations. Insert covers the initial contents too.
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

// Receiver gets the rows. The goroutine of Client.Run makes all calls. A slow Receiver
// delays the connection and may end it, since the server's echo requests wait for it too.
type Receiver interface {
	// Reset comes before the rows of a new connection, and before those that Client.Reread
	// asks for. It does not come, and the rows are changes, where the server remembers what the
	// Receiver has. They replace everything at the next Commit; until then the rows of the last Commit stay valid.
	// Rows without a Commit before a Reset are void.
	Reset()
	// Row is one row of the initial contents or of an update. An error ends the
	// connection, and a new one starts over with Reset.
	Row(table string, id UUID, op Op, row *Row) error
	// Conditions says that the rows so far reflect the conditions of the
	// SetConditions that returned gen, and so of every earlier one; 0 stands for
	// those of Config. Commit follows.
	Conditions(gen uint64)
	// Commit ends the initial contents, an update, or a change of conditions:
	// the rows are consistent.
	Commit()
	// Ended is called at the end of each connection, and of each attempt to connect.
	Ended()
	// State is called on change only: after the first Commit of a connection, when
	// it ends, and when an endpoint fails in another way than it did before.
	State(s State)
}

// State is the state of a Client.
type State struct {
	// Endpoint is the server in question, in the form of endpoint.Endpoint.
	Endpoint string
	// Synced is set from the first Commit of a connection to its end.
	Synced bool
	// Err is why there is no connection, or not the one that is wanted; nil if
	// Synced.
	Err error
}
