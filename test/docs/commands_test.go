// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"os/exec"
	"regexp"
	"testing"
)

// Each block of commands has a row that says who runs it, and each row has a block, a test that there
// is, or a reason. What no test runs is read by the shell.
func TestDocumentedCommandsAreRun(t *testing.T) {
	const table = "AllCommands in test/docs/commands.go"
	blocks, tests := map[int]int{}, functions(t)
	for _, page := range readPages(t) {
		for _, b := range page.Blocks {
			if b.Language != "sh" {
				continue
			}
			rows := 0
			for i := range AllCommands {
				if AllCommands[i].Has(&b) {
					rows++
					blocks[i]++
				}
			}
			if rows != 1 {
				t.Errorf("%s:%d: block %d of the commands in the section %s has %d rows, want 1 in %s:\n"+
					"\t{Section: %q, Block: %[3]d, Where: Elsewhere, By: \"FOLDER.TestName\"}, if that test runs it;\n"+
					"\tWhere: Nowhere, By: \"the reason\", if no test can run it; without both test.TestDocumentedCommands runs it.\n"+
					"\tA row without Block is for all blocks of the section.", page.Path, b.Line, b.Number, b.Section, rows, table, b.Section)
			}
			if out, err := exec.Command("sh", "-n", "-c", b.Text).CombinedOutput(); err != nil {
				t.Errorf("%s:%d: %v\n%s", page.Path, b.Line, err, out)
			}
		}
	}
	for i, row := range AllCommands {
		if blocks[i] == 0 {
			t.Errorf("%s, block %d: no such section or block, so its row in %s goes, or gets the new name of the section", row.Section, row.Block, table)
		}
		switch {
		case row.Where == Nowhere && row.Block == 0:
			t.Errorf("%s: a row for what nobody runs is of one block; name it in %s", row.Section, table)
		case row.Where == InLab && row.By != "", row.Where != InLab && (row.By == "" || row.Cases != nil):
			t.Errorf("%s, block %d: expected cases for what is run in the lab, and else a test or a reason", row.Section, row.Block)
		case row.Where == Elsewhere && !tests[row.By]:
			t.Errorf("%s, block %d: there is no test %s", row.Section, row.Block, row.By)
		}
		for _, name := range regexp.MustCompile(`[a-z/]+\.Test\w+`).FindAllString(row.By, -1) {
			if !tests[name] {
				t.Errorf("%s, block %d: there is no test %s", row.Section, row.Block, name)
			}
		}
	}
}
