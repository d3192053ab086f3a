// SPDX-License-Identifier: Apache-2.0

package label

import (
	"strings"

	"github.com/coredns/caddy/caddyfile"
	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/parser"

	"github.com/puntdns/puntdns/internal/escape"
)

// comparedNames returns what views compare with the switch's name, by ==, != or in.
func comparedNames(block caddyfile.ServerBlock) []string {
	var c comparisons
	d := caddyfile.NewDispenserTokens("", block.Tokens["view"])
	for d.Next() {
		d.RemainingArgs() // its name
		for d.NextBlock() {
			if d.Val() != "expr" {
				continue
			}
			// Plugin view refuses what it can't parse.
			if tree, err := parser.Parse(strings.Join(d.RemainingArgs(), " ")); err == nil {
				ast.Walk(&tree.Node, &c)
			}
		}
	}
	return c.names
}

type comparisons struct{ names []string }

func (c *comparisons) Visit(node *ast.Node) {
	b, ok := (*node).(*ast.BinaryNode)
	if !ok || b.Operator != "==" && b.Operator != "!=" && b.Operator != "in" {
		return
	}
	for _, sides := range [][2]ast.Node{{b.Left, b.Right}, {b.Right, b.Left}} {
		if !readsLabel(sides[0], Switch) {
			continue
		}
		values := []ast.Node{sides[1]}
		if list, ok := sides[1].(*ast.ArrayNode); ok {
			values = list.Nodes
		}
		for _, l := range values {
			text, ok := l.(*ast.StringNode)
			if !ok || text.Value == "" {
				continue
			}
			// The label has a name with its escapes.
			if name, ok := escape.Original(text.Value); ok {
				c.names = append(c.names, name)
			}
		}
	}
}

// readsLabel reports whether a node is metadata('LABEL').
func readsLabel(node ast.Node, label string) bool {
	call, ok := node.(*ast.CallNode)
	if !ok || len(call.Arguments) != 1 {
		return false
	}
	function, ok := call.Callee.(*ast.IdentifierNode)
	text, isText := call.Arguments[0].(*ast.StringNode)
	return ok && isText && function.Value == "metadata" && text.Value == label
}
