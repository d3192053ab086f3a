// SPDX-License-Identifier: Apache-2.0

package binding

// location is where a former guest is, by Southbound.
type location uint8

const (
	unbound   location = iota // no chassis
	here                      // and its network is covered
	former                    // bound to the former Chassis row
	elsewhere                 // bound to another chassis, or moved to another switch
	absent                    // no row
	unknown                   // the database is empty, or has not sent the row yet
)

type facts struct {
	at         location
	plugged    bool // its interface exists
	keysReused bool // another port or network has its tunnel keys
	timedOut   bool
}

// Outcome decides on a guest without a binding. All except retain end its grace.
type Outcome uint8

const (
	retain Outcome = iota
	boundAgain
	moved
	deleted
	unplugged
	replaced
	Expired
)

var OutcomeTexts = [...]string{
	boundAgain: "bound again", moved: "bound elsewhere", deleted: "deleted", unplugged: "without an interface",
	replaced: "replaced, as their tunnel keys are another port's", Expired: "not bound in time",
}

func (f facts) decide() Outcome {
	switch {
	case f.at == here:
		return boundAgain
	case f.at == elsewhere:
		return moved
	case f.at == absent:
		return deleted
	case !f.plugged:
		return unplugged
	case f.keysReused:
		return replaced
	case f.timedOut:
		return Expired
	}
	return retain
}
