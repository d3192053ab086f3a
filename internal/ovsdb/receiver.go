// SPDX-License-Identifier: Apache-2.0

package ovsdb

// Op is a change of a row, as the conditions show it: a row that begins to match is inserted, and a row
// that ceases to match is deleted.
type Op uint8

// The operations. Rows of the initial contents are inserts too.
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

// Receiver gets the rows. The goroutine of Client.Run makes all calls. A slow Receiver delays the replies
// to the server's echo requests, so the server may close the connection.
type Receiver interface {
	// Reset begins all contents: the rows that follow replace everything at the next Commit. Until then
	// the rows of the last Commit stay valid. Reset voids rows that have had no Commit. A new connection
	// begins without Reset if the server remembers the Receiver's rows: then the rows are changes.
	Reset()
	// Row is a row of the initial contents or of an update. An error ends the connection, and the next
	// one begins with Reset.
	Row(table string, id UUID, op Op, row *Row) error
	// Conditions reports that the rows so far reflect the call of SetConditions that returned gen, and
	// all earlier calls; 0 stands for Config. Commit follows.
	Conditions(gen uint64)
	// Commit ends the initial contents, an update, or a change of conditions: the rows are consistent.
	Commit()
	// Ended is the end of a connection, or of an attempt to connect.
	Ended()
	// State reports changes: the first Commit of a connection, its end, and another failure of an
	// endpoint than before.
	State(s State)
}

// State is the state of a Client.
type State struct {
	// Endpoint is the server, in the form of endpoint.Endpoint.
	Endpoint string
	// Synced is set from the first Commit of a connection to its end.
	Synced bool
	// Err is why the client is not in sync; nil if Synced.
	Err error
}
