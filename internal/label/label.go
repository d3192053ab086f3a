// SPDX-License-Identifier: Apache-2.0

// Package label has the metadata labels of punted queries: names, values, which ones a server block reads,
// and which guests have a value.
package label

import (
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/puntdns/puntdns/internal/escape"
	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/internal/ovn/ovndb"
)

const prefix = "ofpunt/"

// Names of labels. ExternalID is followed by a key of the port's external_ids.
const (
	Bridge      = prefix + "bridge"
	InPort      = prefix + "in-port"
	Network     = prefix + "network"
	Port        = prefix + "port"
	Group       = prefix + "group"
	Router      = prefix + "router"
	Switch      = prefix + "switch"
	VLAN        = prefix + "vlan"
	ClientMAC   = prefix + "client-mac"
	Destination = prefix + "destination"
	ExternalID  = prefix + "external-id/"
)

// Subject is what a label describes.
type Subject uint8

const (
	// OfGuest labels are from switch and databases.
	OfGuest Subject = iota
	// OfBridge labels are the same for all guests of a bridge.
	OfBridge
	// OfPacket labels are chosen by a guest with each packet.
	OfPacket
)

// Label is one label. It has one of number, network and text.
type Label struct {
	// Name is complete: no query assembles it.
	Name    string
	Subject Subject
	// FromOVN: only the OVN databases have values.
	FromOVN bool

	number      func(*origin.Origin) uint64
	least, most uint64
	network     func(*origin.Origin) origin.Network
	text        func(*origin.Origin) string
	// isList: text is comma-separated.
	isList bool
}

const (
	// maxVLAN is from IEEE 802.1Q, section 9.6.
	maxVLAN = 4094
	// maxInPort is the local port's number in OpenFlow 1.0, by which Open vSwitch numbers ports.
	maxInPort = 0xfffe
)

var labels = [...]Label{
	{Name: Bridge, Subject: OfBridge, text: func(o *origin.Origin) string { return o.Bridge }},
	{Name: Group, FromOVN: true, isList: true, text: func(o *origin.Origin) string {
		if o.Attributes == nil {
			return ""
		}
		return o.Attributes.Groups()
	}},
	{Name: InPort, number: func(o *origin.Origin) uint64 { return uint64(o.InPort) }, least: 1, most: maxInPort},
	{Name: Network, FromOVN: true, network: func(o *origin.Origin) origin.Network { return o.Network }},
	{Name: Port, text: func(o *origin.Origin) string { return o.Port }},
	{Name: Router, FromOVN: true, isList: true, text: func(o *origin.Origin) string {
		if o.Attributes == nil {
			return ""
		}
		return o.Attributes.Routers()
	}},
	{Name: Switch, text: func(o *origin.Origin) string { return o.Switch }},
	{Name: VLAN, number: func(o *origin.Origin) uint64 { return uint64(o.VLAN) }, most: maxVLAN},
	{Name: ClientMAC, Subject: OfPacket, text: func(o *origin.Origin) string { return o.MAC.String() }},
	{Name: Destination, Subject: OfPacket, text: func(o *origin.Origin) string { return o.Destination.String() }},
}

// All returns the labels without a key. The caller may append to them.
func All() []Label { return labels[:len(labels):len(labels)] }

func names(is func(*Label) bool) (all []string) {
	for i := range labels {
		if is(&labels[i]) {
			all = append(all, labels[i].Name)
		}
	}
	return all
}

// Expected describes all labels, or those of a guest.
func Expected(ofGuest bool) string {
	all := names(func(l *Label) bool { return !ofGuest || l.Subject == OfGuest })
	slices.Sort(all)
	return fmt.Sprintf("%s, %sKEY with a key of letters, digits and _ . : / -", strings.Join(all, ", "), ExternalID)
}

// Named returns a label by name.
func Named(name string) (Label, bool) {
	if key, ok := keyOf(name); ok {
		return OfKey(key), true
	}
	i := slices.IndexFunc(labels[:], func(l Label) bool { return l.Name == name })
	if i < 0 {
		return Label{}, false
	}
	return labels[i], true
}

// OfKey returns the label for a key of external_ids.
func OfKey(key string) Label {
	return Label{Name: ExternalID + key, text: func(o *origin.Origin) string {
		if o.Attributes == nil {
			return ""
		}
		return o.Attributes.ExternalID(key)
	}}
}

// Key returns the label's key of external_ids.
func (l *Label) Key() (key string, ok bool) { return strings.CutPrefix(l.Name, ExternalID) }

// externalIDKey excludes special characters of plugins that read labels.
var externalIDKey = regexp.MustCompile(`^[A-Za-z0-9_.:/-]+$`)

// keyOf returns the key in a label's name, if valid.
func keyOf(name string) (key string, ok bool) {
	key, ok = strings.CutPrefix(name, ExternalID)
	return key, ok && externalIDKey.MatchString(key)
}

// Value returns a query's value. It escapes unprintable characters, as tenants choose values that plugins
// log.
func (l *Label) Value(o *origin.Origin) string {
	switch {
	case l.number != nil:
		return strconv.FormatUint(l.number(o), 10)
	case l.network == nil:
		return escape.Value(l.text(o))
	}
	if n := l.network(o); !n.IsZero() {
		return n.String()
	}
	return ""
}

// value is comparable without making a string.
type value struct {
	number  uint64
	network origin.Network
	text    string
}

func (l *Label) read(o *origin.Origin) value {
	switch {
	case l.number != nil:
		return value{number: l.number(o)}
	case l.network != nil:
		return value{network: l.network(o)}
	}
	return value{text: escape.Value(l.text(o))}
}

var networkID = regexp.MustCompile(`^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)

// Canonical returns the form of Value. The error says what was expected.
func (l *Label) Canonical(text string) (string, error) {
	_, canonical, err := l.parse(text)
	return canonical, err
}

func (l *Label) parse(text string) (v value, canonical string, err error) {
	switch {
	case !utf8.ValidString(text):
		return v, "", errors.New("expected a value in UTF-8")
	case text == "":
		return v, "", errors.New("expected a value; an empty one matches no guest")
	case l.number != nil:
		n, err := strconv.ParseUint(text, 10, 16)
		if err != nil || n < l.least || n > l.most {
			return v, "", fmt.Errorf("expected a number from %d to %d", l.least, l.most)
		}
		return value{number: n}, strconv.FormatUint(n, 10), nil
	case l.network != nil:
		if text = strings.ToLower(text); !networkID.MatchString(text) {
			return v, "", errors.New("expected the UUID of a logical switch")
		}
		if _, err := hex.Decode(v.network[:], []byte(strings.ReplaceAll(text, "-", ""))); err != nil {
			return v, "", err
		}
		return v, text, nil
	case l.isList && strings.Contains(text, ","):
		return v, "", errors.New("expected one name, which matches whatever other names the label has")
	}
	return value{text: text}, text, nil
}

// ParseGuest parses LABEL VALUE, with the value in the form of Value. The label must be OfGuest.
func ParseGuest(words []string) (of Label, value string, err error) {
	expected := "expected LABEL VALUE, the label one of " + Expected(true)
	if len(words) != 2 {
		return Label{}, "", fmt.Errorf("%q: %s", words, expected)
	}
	of, known := Named(words[0])
	switch {
	case !known:
		return Label{}, "", fmt.Errorf("%q: %s", words[0], expected)
	case of.Subject == OfBridge:
		return Label{}, "", fmt.Errorf("%q is the same for all guests of the bridge; %s", of.Name, expected)
	case of.Subject == OfPacket:
		return Label{}, "", fmt.Errorf("%q is what a guest says in its packets; %s", of.Name, expected)
	}
	value, err = of.Canonical(words[1])
	if err != nil {
		return Label{}, "", fmt.Errorf("%s %q: %w", of.Name, words[1], err)
	}
	return of, value, nil
}

// AddRequests adds to r what labels need, and the switch names that they are compared with.
func AddRequests(r *ovndb.Requests, of []Label, comparedNames []string) {
	r.ComparedNames = slices.Concat(r.ComparedNames, comparedNames)
	for i := range of {
		if key, ok := of[i].Key(); ok && !slices.Contains(r.ExternalIDs, key) {
			r.ExternalIDs = append(r.ExternalIDs, key)
		}
		r.RouterNames = r.RouterNames || of[i].Name == Router
		r.GroupNames = r.GroupNames || of[i].Name == Group
	}
}
