// SPDX-License-Identifier: Apache-2.0

package ovndb

import (
	"time"

	"github.com/puntdns/puntdns/internal/ovsdb"
)

type Status []DatabaseStatus

type DatabaseStatus struct {
	Database string
	Synced   bool
	// Err is why the database is not Synced, nil until the first connection has failed.
	Endpoint string
	Err      error
	// Since is when Synced last changed, or the Source was started.
	Since time.Time
	// Saved is when restored rows were saved, or zero.
	Saved  time.Time
	Counts ovsdb.Counts
	Server ovsdb.ServerState
}

func (s Status) Ready() bool {
	for _, d := range s {
		if !d.Synced {
			return false
		}
	}
	return len(s) > 0
}

func (s Status) Lacks() (reasons []string) {
	for _, d := range s {
		if !d.Synced {
			reasons = append(reasons, d.Database+": "+d.Lack())
		}
	}
	return reasons
}

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
