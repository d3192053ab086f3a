// SPDX-License-Identifier: Apache-2.0

package puntctl

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/puntdns/puntdns/internal/control/api"
	"github.com/puntdns/puntdns/internal/opening"
	"github.com/puntdns/puntdns/internal/shell"
)

func egressCommand(o *options) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "egress COMMAND",
		Short: "Set up egress by name, and list policies and open addresses",
		Long: `egress has the commands for egress by name: a guest may send only to addresses
that puntdns has resolved for it. The plugin egress has the policies.`,
		Example: "  puntctl egress init sandboxes\n  puntctl egress list",
		Args:    needs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			return fmt.Errorf("COMMAND %q: expected init, learn, list or policies", args[0])
		},
	}
	cmd.AddCommand(egressInitCommand(o), egressListCommand(o), egressLearnCommand(o), egressPoliciesCommand(o))
	return cmd
}

func egressInitCommand(o *options) *cobra.Command {
	var words []string
	var reject bool
	c := closedGroup{}
	cmd := &cobra.Command{
		Use:   "init GROUP",
		Short: "Print the OVN commands that close the guests of a port group",
		Long: `init prints the ovn-nbctl commands that create a port group whose guests are
closed. It runs none of them: read them, then pipe them to sh. Comments in the
output show how to add a port, and how to undo everything.

A guest of the group may send
  - DNS queries to the resolver addresses, over UDP and TCP
  - DHCP requests, by broadcast or multicast, and neighbour discovery
  - replies to connections that others opened
  - packets to the addresses that puntdns has opened for it: puntdns sets a bit
    of pkt_mark in these packets
OVN drops all other IP packets of the guest. Without puntdns nothing opens.

GROUP is the name of the new port group, of letters, digits, _ and ., and does
not begin with a digit. If a port group of this name exists, ovn-nbctl changes
nothing; --existing closes the guests of such a group.

Without --resolver or --bit, init asks the running puntdns for its resolver
addresses and its bit. If puntdns does not answer, init uses the defaults, and
writes a note on standard error.`,
		Example: `  puntctl egress init sandboxes
  puntctl egress init sandboxes | sh
  puntctl egress init sandboxes --resolver 10.0.0.2 --reject --log info`,
		Args:              needs(1),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			if !o.isForPeople() {
				return fmt.Errorf("--output %q: expected %s, as init prints commands for a shell", o.format, formatTable)
			}
			c.name, c.verdict = args[0], "drop"
			if reject {
				c.verdict = "reject"
			}
			if err := c.check(); err != nil {
				return err
			}
			if !cmd.Flags().Changed(bitFlag) {
				c.bit = 0
			}
			var err error
			if c.resolvers, err = parseResolvers(words); err != nil {
				return err
			}
			if err := o.complete(cmd, &c); err != nil {
				return err
			}
			_, err = fmt.Fprint(cmd.OutOrStdout(), c.commands())
			return err
		},
	}
	flags := cmd.Flags()
	flags.StringArrayVar(&words, "resolver", nil, "resolver address ADDR or ADDR:PORT; may be repeated (default: the addresses of the running puntdns)")
	flags.IntVar(&c.bit, bitFlag, opening.DefaultBit, "bit of pkt_mark that puntdns sets, if puntdns does not run or has no egress")
	flags.BoolVar(&c.existing, "existing", false, "add the ACLs that an existing port group lacks")
	flags.BoolVar(&reject, "reject", false, "answer refused packets with a TCP reset or an ICMP error, instead of dropping them")
	flags.BoolVar(&c.metadata, "metadata", false, "allow the metadata service of clouds, TCP to port 80 of "+metadataAddress)
	flags.StringVar(&c.severity, "log", "", "log refused packets with this severity: "+strings.Join(severities, ", "))
	// The errors are nil, since the options exist.
	_ = cmd.RegisterFlagCompletionFunc("resolver", cobra.NoFileCompletions)
	_ = cmd.RegisterFlagCompletionFunc(bitFlag, cobra.NoFileCompletions)
	_ = cmd.RegisterFlagCompletionFunc("log", cobra.FixedCompletions(severities, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

const dnsPort = 53

func parseResolvers(words []string) (all []netip.AddrPort, err error) {
	for _, word := range words {
		to, err := netip.ParseAddrPort(word)
		if addr, plain := netip.ParseAddr(word); plain == nil {
			to, err = netip.AddrPortFrom(addr, dnsPort), nil
		}
		if err != nil || to.Port() == 0 || to.Addr().Zone() != "" || to.Addr().Is4In6() {
			return nil, fmt.Errorf("--resolver %q: expected an IP address, with or without a port, such as 10.0.0.2 or [fd00::2]:53", word)
		}
		all = append(all, to)
	}
	return distinct(all), nil
}

const bitFlag = "bit"

// complete adds the resolver addresses and the bit of the process to c if c has none, without a process the defaults.
func (o *options) complete(cmd *cobra.Command, c *closedGroup) error {
	if len(c.resolvers) > 0 && c.bit != 0 {
		return nil
	}
	s, err := o.client(cmd).status(cmd.Context())
	if err != nil {
		_, err = fmt.Fprintf(cmd.ErrOrStderr(), "puntctl: puntdns was not asked, so the defaults apply where --resolver or --bit is missing: %v\n", err)
		if len(c.resolvers) == 0 {
			for _, addr := range api.DefaultResolvers() {
				c.resolvers = append(c.resolvers, netip.AddrPortFrom(addr, dnsPort))
			}
		}
	} else if len(c.resolvers) == 0 {
		c.resolvers, err = resolversOf(s)
	}
	if err == nil && c.bit == 0 {
		c.bit, err = bitOf(s)
	}
	return err
}

// bitOf returns the bit of pkt_mark in the ACLs, the default for a process without egress or none.
func bitOf(s *api.Status) (int, error) {
	bit := uint8(0)
	for i := 0; s != nil && i < len(s.Bridges); i++ {
		switch of := s.Bridges[i].EgressBit; {
		case of != 0 && bit != 0 && of != bit:
			return 0, fmt.Errorf("bridge %q has bit %d for egress, and another bridge bit %d; give --bit", s.Bridges[i].Name, of, bit)
		case of != 0:
			bit = of
		}
	}
	return int(cmp.Or(bit, opening.DefaultBit)), nil
}

// resolversOf returns the resolver addresses of the process.
func resolversOf(s *api.Status) (all []netip.AddrPort, err error) {
	for i := range s.Bridges {
		for _, word := range s.Bridges[i].Addresses {
			to, err := netip.ParseAddrPort(word)
			if err != nil { // dhcp, gateway or any
				return nil, fmt.Errorf("bridge %q has the resolver address %q, which depends on the guest; give --resolver", s.Bridges[i].Name, word)
			}
			all = append(all, to)
		}
	}
	if len(all) == 0 {
		return nil, errors.New("puntdns has no resolver address; give --resolver")
	}
	return distinct(all), nil
}

func distinct(all []netip.AddrPort) []netip.AddrPort {
	slices.SortFunc(all, netip.AddrPort.Compare)
	return slices.Compact(all)
}

// metadataAddress is the metadata service of most clouds.
const metadataAddress = "169.254.169.254"

// severities of an ACL's log (ovn-nb(5), ACL TABLE).
var severities = []string{"alert", "warning", "notice", "info", "debug"}

// closedGroup is a port group whose guests send only what its ACLs allow.
type closedGroup struct {
	name      string
	resolvers []netip.AddrPort
	bit       int    // of pkt_mark
	verdict   string // on all other packets: drop or reject
	metadata  bool
	existing  bool   // the group exists, with its ports
	severity  string // of the log of refused packets, "" for no log
}

// groupName matches a port group that a match can name (ovn-sb(5), Logical_Flow TABLE).
var groupName = regexp.MustCompile(`^[a-zA-Z_.][a-zA-Z_.0-9]*$`)

// maxACLName is from ovn-nb.ovsschema.
const maxACLName = 63

func (c *closedGroup) check() error {
	switch {
	case !groupName.MatchString(c.name):
		return fmt.Errorf("GROUP %q: expected letters, digits, _ and ., and no digit at the beginning", c.name)
	case c.bit < 1 || c.bit > 31:
		return fmt.Errorf("--bit %d: expected 1 to 31", c.bit)
	case c.severity != "" && !slices.Contains(severities, c.severity):
		return fmt.Errorf("--log %q: expected %s", c.severity, strings.Join(severities, ", "))
	case c.severity != "" && len(c.name) > maxACLName:
		return fmt.Errorf("GROUP has %d characters: expected %d at most with --log, which names ACLs for their group", len(c.name), maxACLName)
	}
	return nil
}

// ACL priorities (ovn-nb(5), ACL TABLE). allowPriority is the highest.
const (
	allowPriority = 32767
	closePriority = allowPriority - 1
)

// allowed returns the matches of packets that need no mark.
func (c *closedGroup) allowed() (all []string) {
	for _, to := range c.resolvers {
		all = append(all, fmt.Sprintf("%s.dst == %s && (udp.dst == %d || tcp.dst == %[3]d)", family(to.Addr()), to.Addr(), to.Port()))
	}
	// Unicast DHCP is left out: any host could be the server. Without its answer clients renew by broadcast
	// (RFC 2131, section 4.4.5).
	all = append(all,
		"eth.bcast && ip4.dst == 255.255.255.255 && udp.src == 68 && udp.dst == 67",
		"eth.mcast && ip6.dst == ff02::1:2 && udp.src == 546 && udp.dst == 547")
	if c.metadata {
		all = append(all, "ip4.dst == "+metadataAddress+" && tcp.dst == 80")
	}
	return all
}

func family(a netip.Addr) string {
	if a.Is4() {
		return "ip4"
	}
	return "ip6"
}

// commands returns shell commands. The first is one transaction: the group never lacks an ACL, and a group of
// another owner stays.
func (c *closedGroup) commands() string {
	group := shell.Word(c.name)
	meter := shell.Word("log-" + c.name)
	title, create, undo := "Create", []string{"pg-add " + group}, []string{"pg-del " + group}
	if c.existing {
		title, create, undo = "Close the guests of", nil, nil
	}
	var log string
	if c.severity != "" {
		// ovn-controller writes the log: without a meter a guest could flood it. With --existing an older meter is an
		// error: if it were replaced, ovn-controller 23.03 might leave flows of an ACL that is deleted later.
		create = append(create, "meter-add "+meter+" drop 10 pktps")
		undo = append(undo, "meter-del "+meter)
		log = fmt.Sprintf("--log --severity=%s --name=%s --meter=%s ", c.severity, group, meter)
	}
	acl := func(options string, priority int, match, verdict string) {
		if c.existing {
			options = "--may-exist " + options // a group may lack some
		}
		match = shell.Word("inport == @" + c.name + " && " + match)
		create = append(create, fmt.Sprintf("%s--type=port-group acl-add %s from-lport %d %s %s", options, group, priority, match, verdict))
		if c.existing {
			undo = append(undo, fmt.Sprintf("--type=port-group acl-del %s from-lport %d %s", group, priority, match))
		}
	}
	for _, match := range c.allowed() {
		acl("", allowPriority, match, "allow-related")
	}
	for _, protocol := range []string{"ip4", "ip6"} {
		acl(log, closePriority, fmt.Sprintf("%s && pkt.mark[%d] == 0", protocol, c.bit), c.verdict)
	}
	port := `"$(ovn-nbctl get Logical_Switch_Port PORT _uuid)"`
	return "# " + title + " port group " + group + ".\n" +
		"ovn-nbctl " + strings.Join(create, " \\\n  -- ") + "\n" +
		"\n# Close the guest of a port:\n" +
		"#   ovn-nbctl add Port_Group " + group + " ports " + port + "\n" +
		"# Open the guest of a port:\n" +
		"#   ovn-nbctl remove Port_Group " + group + " ports " + port + "\n" +
		"# Undo everything, which opens all guests of the group:\n" +
		"#   ovn-nbctl " + strings.Join(undo, " -- ") + "\n"
}
