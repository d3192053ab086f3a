// SPDX-License-Identifier: Apache-2.0

package flows

import (
	"time"

	"github.com/puntdns/puntdns/ofpunt/placement"
)

// Report is a change of state for the log, the metrics and ready.
type Report interface{ command() }

// The reports.
type (
	// Waiting: Reason prevents placing or changing flows.
	Waiting struct{ Reason string }
	// Installed: New flows are new, Lost flows were restored.
	Installed struct{ New, Lost int }
	// Placed: everything wanted is installed.
	Placed struct {
		// First is set for the first time on a connection, Again after Waiting.
		First, Again bool
		// Table is the table of OVN's DNS stage, 0 if the chassis has none.
		Table uint8
		// Before is the last number of guests.
		Guests, Before, Flows int
	}
	// Serving: the lease flow is installed, or there is nothing to punt. LeaseMissing: only the lease flow is
	// missing.
	Serving      struct{}
	LeaseMissing struct{}
	// Yielded: another process owns the flows; Still if on the last connection too. TookOver: this process owns them
	// again.
	Yielded  struct{ Still bool }
	TookOver struct{}
	// Withdrawn: the switch has confirmed; Replaced if another process took over before.
	Withdrawn struct {
		Replaced bool
		// Closed counts guests whose drop flows stay.
		Closed int
	}
	// Lost: another program has removed or changed flows of this process.
	Lost struct{ Flows int }
	// LeaseExpired: the hard timeout passed without renewal. LeaseRestored: the lease flow is installed again.
	LeaseExpired  struct{}
	LeaseRestored struct{}
	// ProbeTook: a probe has returned. ProbeMissed: no return by the next heartbeat; no renewal until ProbesBack.
	ProbeTook   struct{ Time time.Duration }
	ProbeMissed struct{ Heartbeat time.Duration }
	ProbesBack  struct{}
	// MetersRefused: the switch enforces no limits. MetersShort: Room meters are too few. MetersEnforced: limits work
	// again.
	MetersRefused  struct{ Err error }
	MetersShort    struct{ Room uint32 }
	MetersEnforced struct{}
	// Dropped: the meters have dropped packets since the last report. ByLimit counts named limits, nil for none.
	Dropped struct {
		Packets uint64
		ByGuest map[placement.Key]uint64
		ByLimit map[string]uint64
	}
	// Renewed: the lease flow's renewal was sent. RenewFailed: it could not be sent.
	Renewed     struct{}
	RenewFailed struct{ Err error }
)

func (Waiting) command()        {}
func (Installed) command()      {}
func (Placed) command()         {}
func (Serving) command()        {}
func (LeaseMissing) command()   {}
func (Yielded) command()        {}
func (TookOver) command()       {}
func (Withdrawn) command()      {}
func (Lost) command()           {}
func (LeaseExpired) command()   {}
func (LeaseRestored) command()  {}
func (ProbeTook) command()      {}
func (ProbeMissed) command()    {}
func (ProbesBack) command()     {}
func (MetersRefused) command()  {}
func (MetersShort) command()    {}
func (MetersEnforced) command() {}
func (Dropped) command()        {}
func (Renewed) command()        {}
func (RenewFailed) command()    {}
