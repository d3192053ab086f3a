// SPDX-License-Identifier: Apache-2.0

// Package corefile reads the directive of a plugin in a server block of a Corefile:
//
//	NAME [WORD...] {
//	    PROPERTY [WORD...]
//	    PROPERTY [WORD...] {
//	        PROPERTY [WORD...]
//	    }
//	}
//
// The plugins of this project share it, so that their errors have one form: file and line, what was found,
// and what was expected. The package has no properties except the TLS properties.
package corefile

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/coredns/caddy"
)

// Directive is one directive as it was read. It is immutable.
type Directive struct {
	// Name and Words are the words of the first line.
	Name  string
	Words []string
	// At is the first line of the directive.
	At Position
	// properties are the given properties, by name.
	properties map[string]property
}

// Position is a line of a Corefile, or of a file that it imports. Lines count from 1.
type Position struct {
	File string
	Line int
}

// String implements fmt.Stringer: FILE:LINE.
func (p Position) String() string {
	if p.Line == 0 { // it is not known
		return p.File
	}
	return fmt.Sprintf("%s:%d", p.File, p.Line)
}

// property is one property as it was read. If a property is given more than once, words has the words of all
// its lines and blocks, and at is the position of the first.
type property struct {
	at    Position
	words []string
}

// Parser takes the words behind the name of a directive or property. Its error says what
// was found and what was expected.
type Parser func(words []string) error

// BlockParser begins a property that has a block and may be given more than once. It gets the words after the
// name and their line. It returns the parsers of the properties in the block, and end, which Read calls at
// the end of the block. Its errors have the form of the errors of a Parser.
type BlockParser func(words []string, at Position) (properties map[string]Parser, end func() error, err error)

// Read reads the directive that c stands before, which must be the only one of its name
// in the server block. first parses the words of its first line; nil allows none. It is
// called before the parsers of the properties, which are called in the order of the
// file. Errors begin with file and line.
//
// A property is given once, unless repeatable has its name: its parser is called each time.
func Read(c *caddy.Controller, first Parser, properties map[string]Parser, repeatable ...string) (*Directive, error) {
	return readDirective(c, first, properties, repeatable, nil)
}

// ReadBlocks is Read of a directive some of whose properties have blocks. repeatable also has names of properties in
// blocks.
func ReadBlocks(c *caddy.Controller, first Parser, properties map[string]Parser, blocks map[string]BlockParser, repeatable ...string) (*Directive, error) {
	return readDirective(c, first, properties, repeatable, blocks)
}

func readDirective(c *caddy.Controller, first Parser, properties map[string]Parser, repeatable []string, blocks map[string]BlockParser) (*Directive, error) {
	c.Next()
	d := &Directive{Name: c.Val(), At: positionOf(c), properties: map[string]property{}}
	d.Words = c.RemainingArgs()
	if first == nil {
		first = d.noWords
	}
	if err := first(d.Words); err != nil {
		return nil, c.Err(err.Error())
	}
	for c.NextBlock() {
		err := error(nil)
		if begin, ok := blocks[c.Val()]; ok {
			err = d.readBlock(c, begin, repeatable)
		} else {
			_, err = readProperty(c, "", properties, repeatable, slices.Collect(maps.Keys(blocks)), d.properties)
		}
		if err != nil {
			return nil, err
		}
	}
	if !c.Next() {
		return d, nil
	}
	if c.Val() == "{" {
		return nil, c.Err("expected the { at the end of the line before")
	}
	return nil, c.Errf("%s is given twice in one server block, expected once", d.Name)
}

// readProperty reads the property at c and adds it to given. Errors name the property after prefix. The error
// for an unknown property lists properties and others.
func readProperty(c *caddy.Controller, prefix string, properties map[string]Parser, repeatable, others []string, given map[string]property) (property, error) {
	name := c.Val()
	parse, known := properties[name]
	if !known {
		all := slices.AppendSeq(others, maps.Keys(properties))
		return property{}, c.Errf("%sunknown property %q, expected %s%s", prefix, name, oneOf(all), DidYouMean(name, all))
	}
	before, again := given[name]
	if again && !slices.Contains(repeatable, name) {
		return property{}, c.Errf("%sproperty %q is given twice, expected once", prefix, name)
	}
	p := property{positionOf(c), c.RemainingArgs()}
	if slices.Contains(p.words, "}") {
		return property{}, c.Errf("%s%s: expected } on a line of its own", prefix, name)
	}
	if err := parse(p.words); err != nil {
		return property{}, c.Errf("%s%s: %v", prefix, name, err)
	}
	if given[name] = p; again {
		given[name] = property{before.at, slices.Concat(before.words, p.words)}
	}
	return p, nil
}

// readBlock reads the property with a block that c stands at.
func (d *Directive) readBlock(c *caddy.Controller, begin BlockParser, repeatable []string) error {
	name, at := c.Val(), positionOf(c)
	words := c.RemainingArgs()
	properties, end, err := begin(words, at)
	if err != nil {
		return c.Errf("%s: %v", name, err)
	}
	prefix := strings.Join(append([]string{name}, words...), " ") + ": "
	if !c.NextArg() || c.Val() != "{" {
		return c.Errf("%sexpected { at the end of the line, and %s in the block", prefix, oneOf(slices.Collect(maps.Keys(properties))))
	}
	all, ok := d.properties[name]
	if !ok {
		all.at = at
	}
	all.words = append(all.words, words...)
	given := map[string]property{}
	for c.Next() && c.Val() != "}" {
		name := c.Val()
		p, err := readProperty(c, prefix, properties, repeatable, nil, given)
		if err != nil {
			return err
		}
		all.words = append(append(all.words, name), p.words...)
	}
	if c.Val() != "}" {
		return c.Errf("%sexpected } at the end of the block", prefix)
	}
	d.properties[name] = all
	if err := end(); err != nil {
		return fmt.Errorf("%s - Error during parsing: %s%w", at, prefix, err)
	}
	return nil
}

func (d *Directive) noWords(words []string) error {
	if len(words) > 0 {
		return fmt.Errorf("%q: expected nothing after %s", words, d.Name)
	}
	return nil
}

func positionOf(c *caddy.Controller) Position { return Position{c.File(), c.Line()} }

func oneOf(names []string) string {
	slices.Sort(names)
	switch len(names) {
	case 0:
		return "none"
	case 1:
		return names[0]
	default:
		return fmt.Sprintf("one of %v", names)
	}
}

// HasProperties reports whether the directive gives any property.
func (d *Directive) HasProperties() bool { return len(d.properties) > 0 }

// Gives reports whether the directive gives a property.
func (d *Directive) Gives(property string) bool {
	_, given := d.properties[property]
	return given
}

// PropertyWords returns the words of a property, none if the directive does not give it.
func (d *Directive) PropertyWords(property string) []string { return d.properties[property].words }

// String implements fmt.Stringer: the first line.
func (d *Directive) String() string {
	return strings.Join(append([]string{d.Name}, d.Words...), " ")
}

// Differences returns the names of the properties that two directives do not give in
// the same words, sorted.
func Differences(a, b *Directive) []string {
	all := maps.Clone(a.properties)
	maps.Copy(all, b.properties)
	return slices.DeleteFunc(slices.Sorted(maps.Keys(all)), func(name string) bool {
		return slices.Equal(a.properties[name].words, b.properties[name].words)
	})
}

// Errorf returns an error about a property, for checks after Read. Its form is FILE:LINE - DIRECTIVE:
// PROPERTY: ... If the directive does not give the property, LINE is the line of the directive.
func (d *Directive) Errorf(property, format string, args ...any) error {
	at := d.At
	if p, given := d.properties[property]; given {
		at = p.at
	}
	return fmt.Errorf("%s - %s: %s: %w", at, d, property, fmt.Errorf(format, args...))
}
