// SPDX-License-Identifier: Apache-2.0

package ovndb

import (
	"time"

	"github.com/puntdns/puntdns/internal/ovsdb"
)

// Status is the state of each configured database.
type Status []DatabaseStatus

// DatabaseStatus is the state of one database.
type DatabaseStatus struct {
	// Database is OVN_Southbound or OVN_Northbound.
	Database string
	// Synced is set while there is a connection and its contents are complete.
	Synced bool
	// Endpoint is the server that this is about, and Err why it is not Synced, nil until
	// the first connection has failed.
	Endpoint string
	Err      error
	// Since is when Synced last changed, or the Source was started.
	Since time.Time
	// Saved is set while its rows are those of a file: when that was written.
	Saved time.Time
	// Counts is what its connections have done.
	Counts ovsdb.Counts
	// Server is what the last server has said of itself.
	Server ovsdb.ServerState
}

// Ready reports whether each configured database is synced now.
func (s Status) Ready() bool {
	for _, d := range s {
		if !d.Synced {
			return false
		}
	}
	return len(s) > 0
}

// Lacks returns, for each database that is not synced, why it is not, Southbound first.
func (s Status) Lacks() (reasons []string) {
	for _, d := range s {
		if !d.Synced {
			reasons = append(reasons, d.Database+": "+d.Lack())
		}
	}
	return reasons
}

// Lack returns why a database that is not synced is not.
func (d *DatabaseStatus) Lack() string {
	why := "it is being read"
	if d.Err != nil {
		why = d.Err.Error()
	}
	if !d.Saved.IsZero() {
		why += "; answers are from the saved snapshot of " + d.Saved.Format(time.RFC3339)
	}
	return "not in sync: " + why
}

// set sets the status to a state of the client, and logs it.
func (d *DatabaseStatus) set(s ovsdb.State, log Logger) {
	if d.Synced != s.Synced {
		d.Since = time.Now()
	}
	d.Synced, d.Endpoint, d.Err = s.Synced, s.Endpoint, s.Err
	if s.Synced {
		log.Infof("%s: in sync with %s", d.Database, s.Endpoint)
	} else {
		log.Warningf("%s: not in sync: %v", d.Database, s.Err)
	}
}
