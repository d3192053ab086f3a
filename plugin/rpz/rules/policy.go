// SPDX-License-Identifier: Apache-2.0

package rules

// Action is the effect of a rule on a query.
type Action uint8

// The actions (draft-vixie-dnsop-dns-rpz-00, section 3).
const (
	NoAction Action = iota
	NXDomain        // CNAME . : the name does not exist
	NoData          // CNAME *. : the name has no such record
	Passthru        // CNAME rpz-passthru. : the answer is left alone
	Drop            // CNAME rpz-drop. : no answer
	TCPOnly         // CNAME rpz-tcp-only. : TC over UDP, over TCP as Passthru
	Local           // other records, which are the answer
)

var actionNames = [...]string{"none", "nxdomain", "nodata", "passthru", "drop", "tcp-only", "local"}

// String implements fmt.Stringer: the word in a Corefile and in metrics.
func (a Action) String() string { return actionNames[a] }

// ParseAction returns the action of a word, and whether there is one. Local and NoAction have no word: they
// can't override.
func ParseAction(word string) (Action, bool) {
	for a := NXDomain; a < Local; a++ {
		if actionNames[a] == word {
			return a, true
		}
	}
	return NoAction, false
}

// Policy is the action of a rule: an Action, or from firstLocal on the place of the local data
// in the Rules.
type Policy uint32

const firstLocal = 16

// Action returns the action.
func (p Policy) Action() Action {
	if p >= firstLocal {
		return Local
	}
	return Action(p)
}

// specialTargets are the targets of CNAME records that stand for an action.
var specialTargets = map[string]Action{
	".":             NXDomain,
	"*.":            NoData,
	"rpz-passthru.": Passthru,
	"rpz-drop.":     Drop,
	"rpz-tcp-only.": TCPOnly,
}
