// SPDX-License-Identifier: Apache-2.0

package config

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/puntdns/puntdns/internal/corefile"
	"github.com/puntdns/puntdns/internal/escape"
	"github.com/puntdns/puntdns/internal/label"
	"github.com/puntdns/puntdns/internal/ovn/ovndb"
	"github.com/puntdns/puntdns/ofpunt/guests"
	"github.com/puntdns/puntdns/ofpunt/tcp"
)

// newLimit returns the limit of a line LABEL VALUE, which gives nothing yet.
func newLimit(words []string) (*guests.Limit, error) {
	of, value, err := label.ParseGuest(words)
	if err != nil {
		return nil, err
	}
	return &guests.Limit{Name: of.Name + "=" + value, Label: of.Name, Value: value}, nil
}

// parseLimit is the corefile.BlockParser of the property limit.
func (d *Directive) parseLimit(words []string, at corefile.Position) (map[string]corefile.Parser, func() error, error) {
	l, err := newLimit(words)
	if err != nil {
		return nil, nil, err
	}
	if before, given := d.limitsAt[l.Name]; given {
		return nil, nil, fmt.Errorf("%s %q is given at %s already, expected once", l.Label, l.Value, before)
	}
	parsers := map[string]corefile.Parser{
		"rate": func(args []string) (err error) {
			l.RateGiven = true
			l.Rate, err = parseRateLimit(args)
			return err
		},
		"max_concurrent": func(args []string) error {
			n, err := parseConcurrentWords(args)
			if err == nil {
				l.Concurrent, l.ConcurrentGuest = n[0], n[len(n)-1]
			}
			return err
		},
		"fail": func(args []string) (err error) {
			l.FailGiven = true
			l.FailClosed, err = parseFailWords(args)
			return err
		},
		"tcp_connections": func(args []string) error {
			want := fmt.Sprintf("one number from 1 to %d", tcp.MaxConnections)
			word, err := corefile.One(args, want)
			if err != nil {
				return err
			}
			if l.Connections, err = strconv.Atoi(word); err != nil || l.Connections < 1 || l.Connections > tcp.MaxConnections {
				return fmt.Errorf("%q: expected %s", word, want)
			}
			return nil
		},
	}
	end := func() error {
		if !l.RateGiven && l.Concurrent == 0 && l.Connections == 0 && !l.FailGiven {
			return fmt.Errorf("the block is empty, expected one of %v in it", slices.Sorted(maps.Keys(parsers)))
		}
		if d.limitsAt == nil {
			d.limitsAt = make(map[string]corefile.Position)
		}
		d.limitsAt[l.Name] = at
		d.Bridge.Limits = append(d.Bridge.Limits, *l)
		return nil
	}
	return parsers, end, nil
}

// checkLimits returns an error for a limit above the limit of the bridge, which may follow in the Corefile.
func (d *Directive) checkLimits() error {
	for i := range d.Bridge.Limits {
		if l := &d.Bridge.Limits[i]; l.Concurrent > d.Bridge.Concurrent {
			return d.limitErrorf(l, "max_concurrent: %d: expected at most the %d of all guests of the bridge", l.Concurrent, d.Bridge.Concurrent)
		}
	}
	return nil
}

// CheckWithoutOVN returns an error for a limit by a label that only the OVN databases have values for, if the
// bridge reads none.
func (d *Directive) CheckWithoutOVN() error {
	var all []error
	for i := range d.Bridge.Limits {
		l := &d.Bridge.Limits[i]
		if of, _ := label.Named(l.Label); of.FromOVN {
			all = append(all, d.limitErrorf(l, "the label is empty without an OVN database; expected ovnhosts in a block of this bridge"))
		}
	}
	return errors.Join(all...)
}

// limitErrorf returns an error about a limit, with its line.
func (d *Directive) limitErrorf(l *guests.Limit, format string, args ...any) error {
	return fmt.Errorf("%s - %s: limit %s %s: %w", d.limitsAt[l.Name], d.Directive, l.Label, l.Value, fmt.Errorf(format, args...))
}

// AddRequests adds to r what the limits need of the databases.
func (o *Bridge) AddRequests(r *ovndb.Requests) {
	var (
		named    []label.Label
		compared []string
	)
	for i := range o.Limits {
		l := &o.Limits[i]
		if of, ok := label.Named(l.Label); ok {
			named = append(named, of)
		}
		if name, ok := escape.Original(l.Value); ok && l.Label == label.Switch {
			compared = append(compared, name)
		}
	}
	label.AddRequests(r, named, compared)
}
