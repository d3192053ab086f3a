// SPDX-License-Identifier: Apache-2.0

package rules

// Action is the effect of a rule on a query.
type Action uint8

// The actions (draft-vixie-dnsop-dns-rpz-00, section 3).
const (
	NoAction Action = iota
	NXDomain        // CNAME .
	NoData          // CNAME *.
	Passthru        // CNAME rpz-passthru. : the answer stays
	Drop            // CNAME rpz-drop. : no answer
	TCPOnly         // CNAME rpz-tcp-only. : TC over UDP, Passthru over TCP
	Local           // other records, which are the answer
)

var actionNames = [...]string{"none", "nxdomain", "nodata", "passthru", "drop", "tcp-only", "local"}

// String returns the word in a Corefile and in metrics.
func (a Action) String() string { return actionNames[a] }

// ParseAction returns the action of a word. Local and NoAction have no word: they can't override.
func ParseAction(word string) (Action, bool) {
	for a := NXDomain; a < Local; a++ {
		if actionNames[a] == word {
			return a, true
		}
	}
	return NoAction, false
}

// Policy is an Action, or from firstLocal on the place of local data in the Rules.
type Policy uint32

const firstLocal = 16

// Action returns the action, Local for local data.
func (p Policy) Action() Action {
	if p >= firstLocal {
		return Local
	}
	return Action(p)
}

var specialTargets = map[string]Action{
	".":             NXDomain,
	"*.":            NoData,
	"rpz-passthru.": Passthru,
	"rpz-drop.":     Drop,
	"rpz-tcp-only.": TCPOnly,
}
