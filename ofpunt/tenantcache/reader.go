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

// The plugin template fetches all addresses of a query. Only a template's text in the Corefile shows which
// addresses it uses.

// reading is what a template may read beside the question and labels, as bits.
type reading uint8

const (
	// address of the guest; asked address and port
	readsClient reading = 1 << iota
	readsServer
	// UDP or TCP
	readsProtocol
	// unique to a query: port, id, length
	readsQuery
)

// reader is a template with its reads and questions (plugin/template).
type reader struct {
	reads         reading
	zones         []string
	qclass, qtype uint16
	matches       []*regexp.Regexp // none for all names
}

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
		t.reads |= readByExpression(strings.Join(args[min(1, len(args)):], " ")) // after the name
	case "expr":
		t.reads |= readByExpression(strings.Join(args, " "))
	}
}

// q is in lower case.
func (t *reader) match(q question) bool {
	return (t.qclass == dns.ClassANY || q.qclass == dns.ClassANY || q.qclass == t.qclass) &&
		(t.qtype == dns.TypeANY || q.qtype == dns.TypeANY || q.qtype == t.qtype) &&
		plugin.Zones(t.zones).Contains(q.name) &&
		(len(t.matches) == 0 || slices.ContainsFunc(t.matches, func(m *regexp.Regexp) bool { return m.MatchString(q.name) }))
}

func (c *Cache) reads(q question) (reads reading) {
	for i := range c.readers {
		if t := &c.readers[i]; t.match(q) {
			reads |= t.reads
		}
	}
	return reads
}

// readByText is for text/template with the fields of plugin/template. An invalid text counts as readsQuery.
func readByText(text string) (reads reading) {
	tree := parse.New("")
	tree.Mode = parse.SkipFuncCheck
	trees := map[string]*parse.Tree{}
	if _, err := tree.Parse(text, "", "", trees); err != nil {
		return readsQuery
	}
	reads = readByNode(tree.Root, true)
	for _, t := range trees { // of define and block
		reads |= readByNode(t.Root, true)
	}
	return reads
}

// root is set while the dot is the whole query, which printf may read.
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

// l is nil without else.
func readByList(l *parse.ListNode, root bool) (reads reading) {
	if l == nil {
		return 0
	}
	for _, n := range l.Nodes {
		reads |= readByNode(n, root)
	}
	return reads
}

// p is nil for a template without an argument.
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

// inside is root within the first list.
func readByBranch(b *parse.BranchNode, root, inside bool) reading {
	return readByPipe(b.Pipe, root) | readByList(b.List, inside) | readByList(b.ElseList, root)
}

// No fields are the whole query.
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

// Functions of CoreDNS's package expression that read more than metadata, the question and DO; $env has all
// functions.
var functionReads = map[string]reading{
	"client_ip": readsClient,
	"server_ip": readsServer, "server_port": readsServer,
	"proto": readsProtocol,
	"port":  readsQuery, "id": readsQuery, "size": readsQuery, "bufsize": readsQuery,
	"$env": readsQuery,
}

// An invalid expression counts as readsQuery.
func readByExpression(text string) reading {
	tree, err := parser.Parse(text)
	if err != nil {
		return readsQuery
	}
	var names identifiers
	ast.Walk(&tree.Node, &names)
	return reading(names)
}

// identifiers is an ast.Visitor.
type identifiers reading

func (i *identifiers) Visit(node *ast.Node) {
	if n, ok := (*node).(*ast.IdentifierNode); ok {
		*i |= identifiers(functionReads[n.Value])
	}
}
