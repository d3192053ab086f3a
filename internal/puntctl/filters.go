// SPDX-License-Identifier: Apache-2.0

package puntctl

import (
	"fmt"
	"net/url"
	"slices"

	"github.com/spf13/cobra"

	"github.com/puntdns/puntdns/internal/control/api"
	"github.com/puntdns/puntdns/internal/shell"
)

type filters struct{ words map[string]*[]string }

const filterHelp = `A filter takes several words, with commas or by giving the option again. A query
must match one word of each filter. If no guest has a port or a switch of a
filter, a warning says so on standard error.`

func (f *filters) add(cmd *cobra.Command, o *options) {
	f.words = map[string]*[]string{}
	for _, option := range []struct{ name, help string }{
		{api.FilterPort, "queries of a guest, by its logical port, interface, IP address or MAC address"},
		{api.FilterSwitch, "queries of the guests of a logical switch"},
		{api.FilterName, "queries for a domain name; *.example.org means all names below example.org"},
		{api.FilterType, "queries for a type, such as AAAA or TYPE65"},
		{api.FilterRcode, "queries with a result: an rcode such as NXDOMAIN or 3, RESUMED, or DROPPED"},
		{api.FilterBlock, "queries of a server block, by its zone, or its line, such as Corefile:7"},
	} {
		f.words[option.name] = addFilter(cmd, o, option.name, option.help)
	}
	for option, words := range map[string][]string{
		api.FilterType:  commonTypes,
		api.FilterRcode: {"NOERROR", "NXDOMAIN", "SERVFAIL", "REFUSED", "FORMERR", "NOTIMP", "RESUMED", "DROPPED"},
	} {
		_ = cmd.RegisterFlagCompletionFunc(option, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp))
	}
}

func addFilter(cmd *cobra.Command, o *options, name, help string) *[]string {
	words := cmd.Flags().StringSlice(name, nil, help)
	// The errors are nil, since the options exist.
	switch name {
	case api.FilterPort:
		_ = cmd.RegisterFlagCompletionFunc(name, o.completeGuests(portOf, interfaceOf))
	case api.FilterSwitch:
		_ = cmd.RegisterFlagCompletionFunc(name, o.completeGuests(switchOf))
	}
	return words
}

// keepSwitches keeps guests of the named switches (name or UUID; all without words), and no unserved
// interface, whose switch is unknown. The error names a word without a guest.
func keepSwitches(all *api.Guests, words []string) error {
	if len(words) == 0 {
		return nil
	}
	for _, word := range words {
		if !slices.ContainsFunc(all.Guests, func(g api.Guest) bool { return g.Switch == word || g.Network == word }) {
			return &exitError{status: exitUnwell, err: fmt.Errorf("--%s %q: no guest of this node is on this logical switch", api.FilterSwitch, word)}
		}
	}
	all.Guests = slices.DeleteFunc(all.Guests, func(g api.Guest) bool { return !slices.Contains(words, g.Switch) && !slices.Contains(words, g.Network) })
	all.Unserved = nil
	return nil
}

func (f *filters) warn(cmd *cobra.Command, o *options) {
	p := o.newPage(cmd.ErrOrStderr())
	for _, text := range f.absent(cmd, o) {
		p.sentence(in(yellow, "warning: "+text))
	}
	_, _ = cmd.ErrOrStderr().Write(p.text.Bytes()) // a failed warning can't be reported
}

// absent returns a warning for each port and switch without a guest, which may come later. Without a list of
// guests it returns none.
func (f *filters) absent(cmd *cobra.Command, o *options) (warnings []string) {
	ports, switches := *f.words[api.FilterPort], *f.words[api.FilterSwitch]
	var all api.Guests
	if len(ports)+len(switches) == 0 || o.client(cmd).get(cmd.Context(), api.PathGuests, nil, &all) != nil || len(all.Errors) > 0 {
		return nil
	}
	of := func(option string, words []string, has func(*api.Guest) string) {
		for _, word := range words {
			if !slices.ContainsFunc(all.Guests, func(g api.Guest) bool { return has(&g) == word }) {
				warnings = append(warnings, fmt.Sprintf("--%s %s: no guest has this %s now; watching for one (`puntctl guests` lists all)", option, shell.Word(word), option))
			}
		}
	}
	of(api.FilterPort, ports, func(g *api.Guest) string { return g.Port })
	of(api.FilterSwitch, switches, func(g *api.Guest) string { return g.Switch })
	return warnings
}

// parameters replaces words for guests by their logical ports, which the process compares.
func (f *filters) parameters(cmd *cobra.Command, o *options) url.Values {
	if ports := f.words[api.FilterPort]; len(*ports) > 0 {
		*ports = o.portsOf(cmd, *ports)
	}
	out := url.Values{}
	for name, words := range f.words {
		if len(*words) > 0 {
			out[name] = *words
		}
	}
	return out
}
