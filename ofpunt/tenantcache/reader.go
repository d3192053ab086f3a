// SPDX-License-Identifier: Apache-2.0

package tenantcache

import (
	"regexp"
	"slices"
	"strings"
	"text/template/parse"

	"github.com/coredns/caddy/caddyfile"
	"github.com/coredns/coredns/plugin"
	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/parser"
	"github.com/miekg/dns"
)

// A template may read addresses of the query beside its labels. No handler can observe that: the template
// reads the addresses of each query, and uses them in few. So the Corefile says what the template may use,
// for the questions that it matches.

// reading is what a template may use of a query beside the question and labels, as bits.
type reading uint8

const (
	// readsClient is the guest's address, readsServer the address and port that it has asked.
	readsClient reading = 1 << iota
	readsServer
	// readsProtocol is whether it is UDP or TCP.
	readsProtocol
	// readsQuery is what hardly two queries have the same: the guest's port, the id, a length.
	readsQuery
)

// reader is a template that reads something, and the questions that it matches (plugin/template).
type reader struct {
	reads         reading
	zones         []string
	qclass, qtype uint16
	matches       []*regexp.Regexp // none for all names
}

// readersOf returns the templates of a block that read something.
func readersOf(block caddyfile.ServerBlock) (readers []reader) {
	d := caddyfile.NewDispenserTokens("", block.Tokens["template"])
	for d.Next() {
		t := reader{qclass: dns.ClassANY, qtype: dns.TypeANY}
		args := d.RemainingArgs() // CLASS TYPE [ZONE...]
		if len(args) > 1 {
			t.qclass, t.qtype = dns.StringToClass[args[0]], dns.StringToType[args[1]]
			args = args[2:]
		}
		t.zones = plugin.OriginsFromArgsOrServerBlock(args, block.Keys)
		for d.NextBlock() {
			t.add(d.Val(), d.RemainingArgs())
		}
		if t.reads != 0 {
			readers = append(readers, t)
		}
	}
	return readers
}

// add adds a property of the template.
func (t *reader) add(property string, args []string) {
	switch property {
	case "match":
		for _, arg := range args {
			if m, err := regexp.Compile(arg); err == nil {
				t.matches = append(t.matches, m)
			}
		}
	case "answer", "additional", "authority":
		for _, arg := range args {
			t.reads |= readByText(arg)
		}
	case "var":
		t.reads |= readByExpression(strings.Join(args[min(1, len(args)):], " ")) // behind its name
	case "expr":
		t.reads |= readByExpression(strings.Join(args, " "))
	}
}

// match reports whether the template may answer a question, whose name is in lower case.
func (t *reader) match(q question) bool {
	return (t.qclass == dns.ClassANY || q.qclass == dns.ClassANY || q.qclass == t.qclass) &&
		(t.qtype == dns.TypeANY || q.qtype == dns.TypeANY || q.qtype == t.qtype) &&
		plugin.Zones(t.zones).Contains(q.name) &&
		(len(t.matches) == 0 || slices.ContainsFunc(t.matches, func(m *regexp.Regexp) bool { return m.MatchString(q.name) }))
}

// reads returns what the templates for a question may use.
func (c *Cache) reads(q question) (reads reading) {
	for i := range c.readers {
		if t := &c.readers[i]; t.match(q) {
			reads |= t.reads
		}
	}
	return reads
}

// readByText returns what the text of a template reads (text/template; the fields are the fields of the
// plugin template). A text that does not parse counts as reading the query.
func readByText(text string) (reads reading) {
	tree := parse.New("")
	tree.Mode = parse.SkipFuncCheck
	trees := map[string]*parse.Tree{}
	if _, err := tree.Parse(text, "", "", trees); err != nil {
		return readsQuery
	}
	reads = readByNode(tree.Root, true)
	for _, t := range trees { // those of define and block
		reads |= readByNode(t.Root, true)
	}
	return reads
}

// readByNode returns what a part of a template reads. root is set where the dot is all that the
// template knows, which an action such as printf may read as a whole.
func readByNode(n parse.Node, root bool) reading {
	switch n := n.(type) {
	case *parse.DotNode:
		if root {
			return readsQuery
		}
	case *parse.FieldNode:
		return readByFields(n.Ident)
	case *parse.VariableNode:
		if n.Ident[0] == "$" {
			return readByFields(n.Ident[1:])
		}
		return readByFields(append([]string{""}, n.Ident[1:]...))
	case *parse.ChainNode:
		return readByNode(n.Node, root) | readByFields(n.Field)
	case *parse.ListNode:
		return readByList(n, root)
	case *parse.ActionNode:
		return readByNode(n.Pipe, root)
	case *parse.TemplateNode:
		return readByNode(n.Pipe, root)
	case *parse.PipeNode:
		return readByPipe(n, root)
	case *parse.IfNode:
		return readByBranch(&n.BranchNode, root, root)
	case *parse.WithNode:
		return readByBranch(&n.BranchNode, root, false)
	case *parse.RangeNode:
		return readByBranch(&n.BranchNode, root, false)
	}
	return 0
}

// readByList does so for a list of parts, nil where there is no else.
func readByList(l *parse.ListNode, root bool) (reads reading) {
	if l == nil {
		return 0
	}
	for _, n := range l.Nodes {
		reads |= readByNode(n, root)
	}
	return reads
}

// readByPipe does so for a pipeline, nil where template has no argument.
func readByPipe(p *parse.PipeNode, root bool) (reads reading) {
	if p == nil {
		return 0
	}
	for _, c := range p.Cmds {
		for _, arg := range c.Args {
			reads |= readByNode(arg, root)
		}
	}
	return reads
}

// readByBranch does so for if, with and range. inside is root within the first list.
func readByBranch(b *parse.BranchNode, root, inside bool) reading {
	return readByPipe(b.Pipe, root) | readByList(b.List, inside) | readByList(b.ElseList, root)
}

// readByFields does so for the fields behind a dot, none for all of them.
func readByFields(fields []string) reading {
	switch {
	case len(fields) == 0:
		return readsQuery
	case slices.Contains(fields, "Remote"):
		return readsClient
	}
	if i := slices.Index(fields, "Message"); i >= 0 && (i+1 == len(fields) || fields[i+1] != "Question") {
		return readsQuery
	}
	return 0
}

// functionReads are the functions of CoreDNS's package expression that read a query, other than metadata and
// the functions of the question and DO; and the map of all of them.
var functionReads = map[string]reading{
	"client_ip": readsClient,
	"server_ip": readsServer, "server_port": readsServer,
	"proto": readsProtocol,
	"port":  readsQuery, "id": readsQuery, "size": readsQuery, "bufsize": readsQuery,
	"$env": readsQuery,
}

// readByExpression returns what an expression reads. What can't be read counts as reading the
// query.
func readByExpression(text string) reading {
	tree, err := parser.Parse(text)
	if err != nil {
		return readsQuery
	}
	var names identifiers
	ast.Walk(&tree.Node, &names)
	return reading(names)
}

// identifiers is an ast.Visitor that collects what the functions of an expression read.
type identifiers reading

// Visit implements ast.Visitor.
func (i *identifiers) Visit(node *ast.Node) {
	if n, ok := (*node).(*ast.IdentifierNode); ok {
		*i |= identifiers(functionReads[n.Value])
	}
}
