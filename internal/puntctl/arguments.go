// SPDX-License-Identifier: Apache-2.0

package puntctl

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/puntdns/puntdns/internal/control/api"
	"github.com/puntdns/puntdns/internal/escape"
)

// arguments returns the arguments in a command's synopsis: PORT|SWITCH, NAME.
func arguments(cmd *cobra.Command) (names []string) {
	for _, word := range strings.Fields(cmd.Use)[1:] {
		names = append(names, strings.Trim(word, "[]"))
	}
	return names
}

// needs requires the first arguments of the synopsis.
func needs(required int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		names := arguments(cmd)
		switch {
		case len(args) < required:
			return fmt.Errorf("%s is missing; expected `%s`", names[len(args)], cmd.UseLine())
		case len(args) > len(names):
			return fmt.Errorf("argument %q is one too many; expected `%s`", args[len(names)], cmd.UseLine())
		}
		return nil
	}
}

// named adds the argument or option to an error of the process, which begins with the parameter's name or the
// quoted first argument.
func named(cmd *cobra.Command, err error) error {
	if err == nil {
		return nil
	}
	text, names := err.Error(), arguments(cmd)
	first, _, _ := strings.Cut(text, " ")
	switch {
	case strings.HasPrefix(text, `"`) && len(names) > 0:
		text = names[0] + " " + text
	case cmd.Flags().Lookup(first) != nil:
		text = "--" + text
	case slices.Contains(names, strings.ToUpper(first)):
		text = strings.ToUpper(first) + strings.TrimPrefix(text, first)
	default:
		return err
	}
	var exit *exitError
	if errors.As(err, &exit) {
		return &exitError{status: exit.status, err: errors.New(text)}
	}
	return errors.New(text)
}

// expected are the values of an option by pflag type.
var expected = map[string]string{"int": "a whole number", "duration": "a duration such as 30s or 5m", "bool": "true or false"}

func flagError(_ *cobra.Command, err error) error {
	var invalid *pflag.InvalidValueError
	if !errors.As(err, &invalid) {
		return err
	}
	what, ok := expected[invalid.GetFlag().Value.Type()]
	if !ok {
		return err
	}
	return fmt.Errorf("--%s %q: expected %s", invalid.GetFlag().Name, invalid.GetValue(), what)
}

const completeTimeout = time.Second

// asked reports whether the process has answered in time.
func (o *options) asked(cmd *cobra.Command, path string, parameters url.Values, answer any) bool {
	ctx, cancel := context.WithTimeout(cmd.Context(), completeTimeout)
	defer cancel()
	c := o.client(cmd)
	c.progress = io.Discard
	return c.get(ctx, path, parameters, answer) == nil
}

// completions removes names that a terminal may interpret.
func completions(words []string) ([]string, cobra.ShellCompDirective) {
	slices.Sort(words)
	words = slices.DeleteFunc(slices.Compact(words), func(word string) bool { return word == "" || escape.NeedsEscape(word) })
	return words, cobra.ShellCompDirectiveNoFileComp
}

func (o *options) completeGuests(words ...func(*api.Guest) string) func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return func(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
		var all api.Guests
		var found []string
		if o.asked(cmd, api.PathGuests, nil, &all) {
			for i := range all.Guests {
				for _, word := range words {
					found = append(found, word(&all.Guests[i]))
				}
			}
		}
		return completions(found)
	}
}

func portOf(g *api.Guest) string   { return g.Port }
func switchOf(g *api.Guest) string { return g.Switch }

// interfaceOf returns "" if the interface's name means another guest.
func interfaceOf(g *api.Guest) string {
	if g.VLAN != 0 {
		return ""
	}
	return g.Interface
}

func (o *options) completeFirst(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return o.completeGuests(portOf, switchOf, interfaceOf)(cmd, args, word)
}

var commonTypes = []string{"A", "AAAA", "PTR", "SRV", "TXT", "MX", "CNAME", "SOA", "NS", "HTTPS"}

// completeQuery completes PORT NAME TYPE, with the names that the guest sees.
func (o *options) completeQuery(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
	switch len(args) {
	case 0:
		return o.completeGuests(portOf, interfaceOf)(cmd, args, word)
	case 1:
		var all api.Names
		var found []string
		port := args
		var guests api.Guests
		if o.asked(cmd, api.PathGuests, nil, &guests) {
			port = portsAmong(&guests, args)
		}
		if len(port) == 1 && o.asked(cmd, api.PathNames, url.Values{"of": port}, &all) {
			for i := range all.Networks {
				for _, n := range all.Networks[i].Names {
					found = append(found, n.Name)
				}
			}
		}
		return completions(found)
	case 2:
		return commonTypes, cobra.ShellCompDirectiveNoFileComp
	}
	return nil, cobra.ShellCompDirectiveNoFileComp
}
