// SPDX-License-Identifier: Apache-2.0

package flows

import (
	"time"

	"github.com/puntdns/puntdns/ofpunt/placement"
)

// Report is a change of state that the log, the metrics or ready are to know of. It comes
// when something has changed, not as long as it lasts.
type Report interface{ command() }

// The reports.
type (
	// Waiting: nothing can be placed, or changed, for that reason.
	Waiting struct{ Reason string }
	// Installed: the switch has New more flows. Lost of them are put back after another program had removed
	// or changed them.
	Installed struct{ New, Lost int }
	// Placed: all that is wanted is installed.
	Placed struct {
		// First is set for the first time on a connection, Again after Waiting.
		First, Again bool
		// Table is the table of OVN's DNS stage, 0 if the chassis has none.
		Table uint8
		// Guests is how many are served, Before how many were; Flows how many are installed.
		Guests, Before, Flows int
	}
	// Serving: the lease flow is installed, or there is nothing to punt. LeaseMissing: the lease flow is
	// missing, though all other flows are installed.
	Serving      struct{}
	LeaseMissing struct{}
	// Yielded: another process owns the flows; Still is set if that was so on the
	// connection before. TookOver: that process is gone, and this one owns them again.
	Yielded  struct{ Still bool }
	TookOver struct{}
	// Withdrawn: the switch has confirmed that the flows are gone. Replaced is set if another
	// process has taken over before that.
	Withdrawn struct {
		Replaced bool
		// Closed is how many guests have flows that stay, and drop their packets.
		Closed int
	}
	// Lost: another program has removed or changed flows of this process.
	Lost struct{ Flows int }
	// LeaseExpired: its hard timeout has passed without a renewal. LeaseRestored: it is
	// installed again.
	LeaseExpired  struct{}
	LeaseRestored struct{}
	// ProbeTook: a probe has come back. ProbeMissed: one has not come back by the next
	// beat; the lease flow is not renewed until ProbesBack.
	ProbeTook   struct{ Time time.Duration }
	ProbeMissed struct{ Heartbeat time.Duration }
	ProbesBack  struct{}
	// MetersRefused: limits are not enforced. MetersShort: not for some guests, as
	// there is room for so many meters only. MetersEnforced: they are again.
	MetersRefused  struct{ Err error }
	MetersShort    struct{ Room uint32 }
	MetersEnforced struct{}
	// Dropped: the meters have dropped that many packets more, by guest; ByLimit are those
	// among them of limits that have a name, nil for none.
	Dropped struct {
		Packets uint64
		ByGuest map[placement.Key]uint64
		ByLimit map[string]uint64
	}
	// Renewed: the renewal of the lease flow was sent. RenewFailed: it could not be.
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
