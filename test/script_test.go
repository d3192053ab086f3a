// SPDX-License-Identifier: Apache-2.0

package test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/miekg/dns"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/puntdns/puntdns/internal/testkit"
	"github.com/puntdns/puntdns/test/lab"
)

// scriptFolder is the environment variable with another folder of scripts than script.
const scriptFolder = "PUNTDNS_SCRIPTS"

// TestScript runs the scripts of the folder script, a subtest each; script/README.md has the commands.
func TestScript(t *testing.T) {
	t.Parallel()
	folder := os.Getenv(scriptFolder)
	if folder == "" {
		folder = "script"
	}
	repository, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	testscript.RunT(scriptT{t}, testscript.Params{
		Dir: folder, ContinueOnError: true, RequireUniqueNames: true, Cmds: scriptCommands(),
		Setup: func(env *testscript.Env) error {
			file := filepath.Join(folder, strings.TrimPrefix(filepath.Base(env.WorkDir), "script-")+".txtar")
			env.Values[scriptKey{}] = &script{
				t: env.T().(scriptT).T, file: file, guests: map[string]*lab.Guest{}, servers: map[string]*lab.DNSServer{}, marks: map[string]float64{},
			}
			env.Setenv("REPOSITORY", repository)
			env.Setenv("READY", "errors\n    prometheus "+metricsAddr+"\n    ready "+readyAddr+" {\n        monitor continuously\n    }")
			return nil
		},
	})
}

// A wrong line fails with its number, and the script goes on unless a helper has ended it. Nothing of
// the lab is left.
func TestScriptFails(t *testing.T) {
	t.Parallel()
	lab.Need(t)
	left := t.TempDir()
	cmd := exec.Command(os.Args[0], "-test.run=^TestScript$")
	cmd.Env = append(os.Environ(), scriptFolder+"=script/testdata", prebuilt+"="+puntdns, "TMPDIR="+left)
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState.ExitCode() != 1 {
		t.Errorf("it ended with %v", err)
	}
	var got []string
	for _, m := range regexp.MustCompile(`wrong\.txtar:(\d+): `).FindAllStringSubmatch(string(out), -1) {
		got = append(got, m[1])
	}
	if want := []string{"7", "8", "17", "18", "19", "20", "22", "10", "11", "12"}; !slices.Equal(got, want) {
		t.Errorf("the lines %q fail, want %q\n%s", got, want, out)
	}
	if files, err := os.ReadDir(left); err != nil || len(files) > 0 {
		t.Errorf("%v are left: %v", files, err)
	}
}

// scriptT is a test as testscript takes it.
type scriptT struct{ *testing.T }

func (t scriptT) Run(name string, f func(testscript.T)) {
	t.T.Run(name, func(t *testing.T) { f(scriptT{t}) })
}

// Verbose is false: the log of a script has the commands of the part that fails.
func (t scriptT) Verbose() bool { return false }

type scriptKey struct{}

// script is the state of a running script.
type script struct {
	*testscript.TestScript
	t       *testing.T
	file    string
	lab     *lab.Lab
	server  *server
	routers []netip.Prefix
	guests  map[string]*lab.Guest
	servers map[string]*lab.DNSServer
	marks   map[string]float64 // values of metrics
}

// commands are those of scripts. One that returns an error fails its line, and the script goes on. One
// in which a helper ends the test fails its line too, and ends the script.
func (s *script) commands() map[string]func([]string) error {
	return map[string]func([]string) error{
		"lab": s.startLab, "switch": s.addSwitches, "router": s.addRouter, "dns": s.addDNS,
		"guest": s.addGuest, "port": s.addPort, "upstream": s.upstream,
		"serve": s.serve, "reload": s.reload, "end": s.end,
		"nbctl": s.nbctl, "sbctl": s.sbctl, "node": s.node, "sync": s.sync, "restart": s.restart,
		"ask": s.ask, "asked": s.asked, "metric": s.metric, "mark": s.mark, "logged": s.logged,
		"soon": s.soon, "times": s.times, "run": s.run,
	}
}

// scriptCommands returns the commands for testscript.
func scriptCommands() map[string]func(*testscript.TestScript, bool, []string) {
	all := map[string]func(*testscript.TestScript, bool, []string){}
	for name := range new(script).commands() {
		all[name] = func(ts *testscript.TestScript, neg bool, args []string) {
			s := ts.Value(scriptKey{}).(*script)
			s.TestScript = ts
			returned := false
			defer func() {
				if !returned {
					defer func() { _ = recover() }() // Fatalf writes the line to the log, and panics
					ts.Fatalf("%s has ended the script", name)
				}
			}()
			err := errors.New("the command takes no !")
			if !neg {
				err = s.command(append([]string{name}, args...))()
			}
			returned = true
			ts.Check(err)
		}
	}
	return all
}

// command returns a command with its arguments.
func (s *script) command(words []string) func() error {
	command := s.commands()[word(words, 0)]
	return func() error {
		switch {
		case command == nil:
			return fmt.Errorf("no command is called %q", word(words, 0))
		case s.lab == nil && words[0] != "lab":
			return errors.New("the first command is lab")
		case s.server == nil && slices.Contains([]string{"reload", "end", "metric", "mark", "logged"}, words[0]):
			return errors.New("puntdns does not run: serve comes first")
		}
		return command(words[1:])
	}
}

// word returns an argument, or nothing where there are fewer.
func word(args []string, i int) string {
	if i < len(args) {
		return args[i]
	}
	return ""
}

// soon repeats a command until it succeeds, for as long as tests wait.
func (s *script) soon(words []string) error { return s.eventually(s.command(words)) }

func (s *script) eventually(check func() error) error { return lab.Poll(within(s.t, wait), check) }

// times repeats a command so many times.
func (s *script) times(args []string) error {
	n, err := strconv.Atoi(word(args, 0))
	for i := 0; i < n && err == nil; i++ {
		err = s.command(args[1:])()
	}
	return err
}

func (s *script) startLab([]string) error {
	s.lab = lab.New(s.t, lab.Options{})
	s.Setenv("SB", s.lab.SB)
	s.Setenv("NB", s.lab.NB)
	s.Setenv("MGMT", s.lab.Node.OpenFlow)
	s.Setenv("OVSDB", s.lab.Node.OVSDB)
	s.Setenv("DATAPATH", s.lab.Datapath)
	s.Setenv("OFPUNT", "ofpunt br-int {\n        openflow "+s.lab.Node.OpenFlow+"\n        ovsdb "+s.lab.Node.OVSDB+"\n        rate off\n    }")
	return nil
}

// addSwitches gives switches the stateful ACLs that most clouds have.
func (s *script) addSwitches(names []string) error {
	for _, name := range names {
		s.lab.AddSwitch(name)
		s.lab.NBCTL("acl-add", name, "from-lport", "1001", "ip", "allow-related", "--", "acl-add", name, "to-lport", "1001", "ip", "allow-related")
	}
	return nil
}

func (s *script) addRouter(args []string) error {
	var ports []lab.RouterPort
	for _, arg := range args[min(1, len(args)):] {
		sw, networks, _ := strings.Cut(arg, "=")
		port := lab.RouterPort{Switch: sw, Networks: strings.Split(networks, ",")}
		for _, network := range port.Networks {
			prefix, err := netip.ParsePrefix(network)
			if err != nil {
				return err
			}
			if s.routers = append(s.routers, prefix); port.MAC == "" {
				port.MAC = macOf(prefix.Addr())
			}
		}
		ports = append(ports, port)
	}
	s.lab.AddRouter(word(args, 0), ports...)
	return nil
}

// macOf makes a MAC of the last four bytes of an address.
func macOf(a netip.Addr) string {
	b := a.As16()
	return net.HardwareAddr{2, 0, b[12], b[13], b[14], b[15]}.String()
}

// pairs splits words KEY=VALUE.
func pairs(words []string) (map[string]string, error) {
	all := map[string]string{}
	for _, w := range words {
		k, v, ok := strings.Cut(w, "=")
		if !ok {
			return nil, fmt.Errorf("%q: expected KEY=VALUE", w)
		}
		all[k] = v
	}
	return all, nil
}

func (s *script) addDNS(args []string) error {
	records, err := pairs(args[min(1, len(args)):])
	if err == nil {
		s.Setenv("DNS", s.lab.AddDNS(records, strings.Split(word(args, 0), ",")...))
	}
	return err
}

func (s *script) addGuest(args []string) error {
	g := lab.Guest{Name: word(args, 0), Switch: word(args, 1), PortSecurity: true}
	for _, arg := range args[min(2, len(args)):] {
		if key, value, ok := strings.Cut(arg, "="); ok {
			switch key {
			case "hostname":
				g.Hostname = value
			case "mac":
				g.MAC = value
			case "addresses":
				g.Addresses, g.PortSecurity = value, false
			default:
				g.Settings = append(g.Settings, arg)
			}
			continue
		}
		prefix, err := netip.ParsePrefix(arg)
		if err != nil {
			return err
		}
		g.Addrs = append(g.Addrs, prefix)
		if g.MAC == "" {
			g.MAC = macOf(prefix.Addr())
		}
		i := slices.IndexFunc(s.routers, func(r netip.Prefix) bool { return r.Masked() == prefix.Masked() })
		switch {
		case i < 0 && prefix.Addr().Is4():
			g.Routes = append(g.Routes, resolver4+" dev "+lab.Iface)
		case i < 0:
			g.Routes = append(g.Routes, resolver6+" dev "+lab.Iface)
		case prefix.Addr().Is4():
			g.Gateway4 = s.routers[i].Addr()
		default:
			g.Gateway6 = s.routers[i].Addr()
		}
	}
	s.guests[g.Name] = s.lab.Node.AddGuest(g)
	return nil
}

// addPort adds a port that no guest is bound to.
func (s *script) addPort(args []string) error {
	if len(args) < 4 {
		return errors.New("expected SWITCH PORT ADDRESSES HOSTNAME [COLUMN=VALUE...]")
	}
	emptyPort(s.lab, args[0], args[1], args[2], args[3], args[4:]...)
	return nil
}

// upstream starts a DNS server with the records of a file: in the guest of that name, else beside the node.
func (s *script) upstream(args []string) error {
	var records []string
	if len(args) > 1 {
		records = strings.Split(strings.TrimSpace(s.ReadFile(args[1])), "\n")
	}
	name := word(args, 0)
	if g := s.guests[name]; g != nil {
		s.servers[name] = g.ServeDNS(net.JoinHostPort(g.Addrs[0].Addr().String(), "53"), records...)
	} else {
		s.servers[name] = s.lab.Upstream(records...)
	}
	s.Setenv(name, s.servers[name].Addr)
	return nil
}

var variable = regexp.MustCompile(`\$[A-Z]\w*`)

// corefile reads a Corefile, and puts in the variables of the script.
func (s *script) corefile(args []string) string {
	return variable.ReplaceAllStringFunc(s.ReadFile(word(args, 0)), func(name string) string {
		value := s.Getenv(name[1:])
		if value == "" {
			s.Fatalf("%s has %s, which is no variable", args[0], name)
		}
		return value
	})
}

// serve waits until OVN has installed what the script has made, starts puntdns, and waits until that is ready.
func (s *script) serve(args []string) error {
	text := s.corefile(args)
	s.lab.Sync()
	s.server = serve(s.t, s.lab, text)
	return nil
}

// reload has puntdns read another Corefile. The next line is to wait for what that changes.
func (s *script) reload(args []string) error {
	if err := os.WriteFile(s.server.path, []byte(s.corefile(args)), 0o600); err != nil {
		return err
	}
	return s.server.Signal(syscall.SIGUSR1)
}

func (s *script) end([]string) error {
	s.server.endWell()
	return nil
}

// nbctl and its kin leave what they print in $OUT.
func (s *script) nbctl(args []string) error {
	s.Setenv("OUT", s.lab.NBCTL(args...))
	return nil
}

func (s *script) sbctl(args []string) error {
	s.Setenv("OUT", s.lab.SBCTL(args...))
	return nil
}

func (s *script) node(args []string) error {
	out, err := s.lab.Node.Exec(within(s.t, wait), args...)
	s.Setenv("OUT", strings.TrimSpace(out))
	return err
}

func (s *script) sync([]string) error {
	s.lab.Sync()
	return nil
}

// restart ends a daemon beside the node, as sb, and starts it again.
func (s *script) restart(args []string) error {
	s.lab.Restart(word(args, 0))
	return nil
}

// expected splits words at =.
func expected(args []string) (before, after []string, err error) {
	i := slices.Index(args, "=")
	if i < 0 || i == len(args)-1 {
		return nil, nil, errors.New("expected = and a value")
	}
	return args[:i], args[i+1:], nil
}

// scriptQuestion is what a guest asks, and how.
type scriptQuestion struct {
	guest   *lab.Guest
	servers []string
	name    string
	qtype   string
	tcp     bool
	options []string // of dig(1)
	want    []string
}

func (s *script) question(args []string) (*scriptQuestion, error) {
	args, want, err := expected(args)
	if err != nil {
		return nil, err
	}
	q := &scriptQuestion{guest: s.guests[word(args, 0)], qtype: "A", want: want}
	if q.guest == nil {
		return nil, fmt.Errorf("no guest is called %q", word(args, 0))
	}
	for _, w := range args[1:] {
		switch {
		case w[0] == '@':
			q.servers = append(q.servers, w[1:])
		case w == "+tcp":
			q.tcp = true
		case w[0] == '+':
			q.options = append(q.options, w)
		case q.name == "":
			q.name = dns.Fqdn(w)
		case dns.StringToType[w] != 0:
			q.qtype = w
		default:
			return nil, fmt.Errorf("%s is no type", w)
		}
	}
	if q.servers == nil {
		for _, a := range q.guest.Addrs {
			q.servers = append(q.servers, map[bool]string{true: resolver4, false: resolver6}[a.Addr().Is4()])
		}
		slices.Sort(q.servers)
		q.servers = slices.Compact(q.servers)
	}
	return q, nil
}

// ask asks once, each server.
func (s *script) ask(args []string) error {
	q, err := s.question(args)
	if err != nil {
		return err
	}
	var errs []error
	for _, server := range q.servers {
		if err := q.wrong(q.answer(s.t, server)); err != nil {
			errs = append(errs, fmt.Errorf("%s asks %s for %s %s: %w", q.guest.Name, server, q.name, q.qtype, err))
		}
	}
	return errors.Join(errs...)
}

// answer asks a server, with options as dig(1) does.
func (q *scriptQuestion) answer(t *testing.T, server string) (*dns.Msg, error) {
	limit := 5 * time.Second
	if q.want[0] == noAnswer {
		limit = time.Second
	}
	if len(q.options) == 0 {
		m := new(dns.Msg).SetQuestion(q.name, dns.StringToType[q.qtype])
		exchange := q.guest.Exchange
		if q.tcp {
			exchange = q.guest.ExchangeTCP
		}
		r, _, err := exchange(within(t, lab.Scaled(limit)), m, net.JoinHostPort(server, "53"))
		return r, err
	}
	d := q.guest.Dig(append([]string{"@" + server, q.name, q.qtype}, q.options...)...)
	flag := func(name string) bool { return slices.Contains(d.Flags, name) }
	r := &dns.Msg{Answer: d.Answer, Ns: d.Authority}
	r.Rcode, r.Authoritative, r.Truncated, r.RecursionAvailable = dns.StringToRcode[d.Status], flag("aa"), flag("tc"), flag("ra")
	if strings.Contains(d.Out, "timed out") {
		return nil, os.ErrDeadlineExceeded
	}
	return r, d.Err
}

// noAnswer stands in the place of a status.
const noAnswer = "no-reply"

// wrong returns what is wrong with an answer. Beside what the script says of it, each record has the
// name that was asked for, or the target of an alias above it; and an answer without records has
// an SOA record, if the status is of names.
func (q *scriptQuestion) wrong(r *dns.Msg, err error) error {
	timeout := errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded)
	switch none := q.want[0] == noAnswer; {
	case none && timeout:
		return nil
	case err != nil:
		return fmt.Errorf("want %s: %w", strings.Join(q.want, " "), err)
	case none:
		return fmt.Errorf("want no reply\n%v", r)
	}
	got := []string{dns.RcodeToString[r.Rcode]}
	names := []string{q.name}
	for _, rr := range r.Answer {
		if !slices.Contains(names, rr.Header().Name) {
			return fmt.Errorf("a record is of %s\n%v", rr.Header().Name, r)
		}
		if c, ok := rr.(*dns.CNAME); ok {
			names = append(names, c.Target)
		}
	}
	got = append(got, strings.Fields(strings.Join(testkit.Data(r.Answer), " "))...)
	named := r.Rcode == dns.RcodeSuccess || r.Rcode == dns.RcodeNameError
	if len(r.Answer) == 0 && named && !r.Truncated && (len(r.Ns) != 1 || r.Ns[0].Header().Rrtype != dns.TypeSOA) {
		return fmt.Errorf("there is no SOA record\n%v", r)
	}
	truncated := false
	var want []string
	for _, w := range q.want {
		key, value, _ := strings.Cut(w, "=")
		right := true
		switch {
		case w == "aa":
			right = r.Authoritative
		case w == "ra":
			right = r.RecursionAvailable
		case w == "tc":
			truncated = true
		case key == "ttl":
			right = len(r.Answer) > 0
			for _, rr := range r.Answer {
				right = right && strconv.Itoa(int(rr.Header().Ttl)) == value
			}
		case key == "soa":
			right = len(r.Ns) == 1 && strings.EqualFold(soa(r.Ns[0]), value)
		default:
			want = append(want, w)
		}
		if !right {
			return fmt.Errorf("want %s\n%v", w, r)
		}
	}
	same := func(got, want string) bool { return got == want || want == "*" }
	if !slices.EqualFunc(got, want, same) || r.Truncated != truncated {
		return fmt.Errorf("%s, want %s\n%v", strings.Join(got, " "), strings.Join(q.want, " "), r)
	}
	return nil
}

// soa is the owner and the TTL of an SOA record. They agree with how long a denial is good.
func soa(rr dns.RR) string {
	r, ok := rr.(*dns.SOA)
	if !ok || r.Minttl != r.Hdr.Ttl {
		return rr.String()
	}
	return fmt.Sprintf("%s/%d", r.Hdr.Name, r.Hdr.Ttl)
}

// run runs the lines of a file as commands, with further variables. All that fail are reported.
func (s *script) run(args []string) error {
	variables, err := pairs(args[min(1, len(args)):])
	if err != nil {
		return err
	}
	for name, value := range variables {
		s.Setenv(name, value)
	}
	text, err := os.ReadFile(s.file)
	if err != nil {
		return err
	}
	file := word(args, 0)
	before, _, _ := strings.Cut(string(text), "\n-- "+file+" --\n")
	first := strings.Count(before, "\n") + 3
	var errs []error
	for i, line := range strings.Split(s.ReadFile(file), "\n") {
		if words := s.words(line); len(words) > 0 {
			if err := s.command(words)(); err != nil {
				errs = append(errs, fmt.Errorf("%s:%d: %w", s.file, first+i, err))
			}
		}
	}
	return errors.Join(errs...)
}

// aWord is a comment, or a word as testscript has them: variables are put in outside of quotes.
var aWord = regexp.MustCompile(`#.*|(?:'[^']*'|[^\s'#])+`)

func (s *script) words(line string) (words []string) {
	for _, w := range aWord.FindAllString(line, -1) {
		if w[0] == '#' {
			break
		}
		parts := strings.Split(w, "'")
		for i := 0; i < len(parts); i += 2 {
			parts[i] = os.Expand(parts[i], s.Getenv)
		}
		words = append(words, strings.Join(parts, ""))
	}
	return words
}

// asked compares how often a server was asked for a name, or, without a name, what it was asked for.
// The root is what forward asks for to see whether a server is alive.
func (s *script) asked(args []string) error {
	args, want, err := expected(args)
	if err != nil {
		return err
	}
	up := s.servers[word(args, 0)]
	if up == nil {
		return fmt.Errorf("no server is called %q", word(args, 0))
	}
	var got string
	if len(args) > 1 {
		got = strconv.Itoa(up.Count(args[1]))
	} else {
		all := map[string]bool{}
		for _, q := range up.Asked() {
			if q.Name != "." {
				all[strings.ToLower(q.Name)+" "+dns.TypeToString[q.Qtype]] = true
			}
		}
		got = strings.Join(slices.Sorted(maps.Keys(all)), ", ")
		if got == "" {
			got = "nothing"
		}
	}
	if got != strings.Join(want, " ") {
		return fmt.Errorf("%s was asked %s, want %s", args[0], got, strings.Join(want, " "))
	}
	return nil
}

// value is the sum of a metric with labels.
func (s *script) value(args []string) float64 {
	var labels []string
	for _, arg := range args[min(1, len(args)):] {
		k, v, _ := strings.Cut(arg, "=")
		labels = append(labels, k, v)
	}
	return s.server.metric(word(args, 0), labels...)
}

func (s *script) mark(args []string) error {
	s.marks[strings.Join(args, " ")] = s.value(args)
	return nil
}

// metric waits for a value; +N is more than at the mark.
func (s *script) metric(args []string) error {
	args, want, err := expected(args)
	if err != nil {
		return err
	}
	value, err := strconv.ParseFloat(want[0], 64)
	if err != nil {
		return err
	}
	if want[0][0] == '+' {
		before, ok := s.marks[strings.Join(args, " ")]
		if !ok {
			return errors.New("there is no mark of it")
		}
		value += before
	}
	return s.eventually(func() error {
		if got := s.value(args); got != value {
			return fmt.Errorf("%s is %v, want %v", strings.Join(args, " "), got, value)
		}
		return nil
	})
}

// logged waits until so many lines of the log have a text in them: one that *log* of the script's own
// Corefile writes, or a value of the script.
func (s *script) logged(args []string) error {
	args, want, err := expected(args)
	if err != nil {
		return err
	}
	text := strings.Join(want, " ")
	return s.eventually(func() error {
		got := 0
		for line := range strings.Lines(s.server.Log()) {
			if strings.Contains(line, text) {
				got++
			}
		}
		if strconv.Itoa(got) != word(args, 0) {
			return fmt.Errorf("%d lines have %q, want %s\n%s", got, text, word(args, 0), s.server.Log())
		}
		return nil
	})
}
