// SPDX-License-Identifier: Apache-2.0

// Package puntctl is the command puntctl: what an operator asks a running puntdns by, over its
// control socket. A file has one command each. It knows the types of package api, and nothing of
// the process behind the socket.
//
//	command ──► client ──► control socket
//	   │
//	   └──► output: a table, JSON or YAML
package puntctl

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/puntdns/puntdns/internal/control/api"
)

// The exit statuses.
const (
	// exitWell is for all that is well, and for what was asked for and found.
	exitWell = 0
	// exitUnwell is for what is not well, and for what was asked for and not found.
	exitUnwell = 1
	// exitUsage is for a wrong command line.
	exitUsage = 2
	// exitNoProcess is for a process that could not be asked.
	exitNoProcess = 3
)

// socketVariable is the environment variable with the path of the socket.
const socketVariable = "PUNTCTL_SOCKET"

// exitError ends the command with a status other than exitUsage.
type exitError struct {
	status int
	err    error // nil where the output has said all
}

// Error implements error.
func (e *exitError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit status %d", e.status)
	}
	return e.err.Error()
}

// Unwrap implements the interface of errors.Is.
func (e *exitError) Unwrap() error { return e.err }

// errUnwell ends the command after its output has said what is not well.
var errUnwell = &exitError{status: exitUnwell}

// Run runs puntctl with arguments, and returns the status to exit with.
func Run(version string, args []string, stdout, stderr io.Writer) int {
	ends := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) { // as nohup(1) has it
		ends = append(ends, syscall.SIGHUP)
	}
	ctx, stop := signal.NotifyContext(context.Background(), ends...)
	defer stop()
	context.AfterFunc(ctx, stop) // the next signal ends a process whose output blocks
	root := New(version)
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	var exit *exitError
	switch {
	case err == nil:
		return exitWell
	case !errors.As(err, &exit):
		fmt.Fprintf(stderr, "puntctl: %v\n", err)
		return exitUsage
	case exit.err != nil:
		fmt.Fprintf(stderr, "puntctl: %v\n", exit.err)
	}
	return exit.status
}

// options are those of all commands.
type options struct {
	socket string
	format string
}

// New returns the command line of puntctl.
func New(version string) *cobra.Command {
	o := &options{}
	root := &cobra.Command{
		Use:   "puntctl",
		Short: "Ask a running puntdns how it is",
		Long: `puntctl asks a running puntdns over its control socket, which the property control of ofpunt in
the Corefile opens. Root may ask, and the user that runs puntdns.

Exit status:
  0  all is well, or what was asked for was found
  1  something is not well, or was not found
  2  the command line is wrong
  3  the process could not be asked`,
		Version:           version,
		SilenceUsage:      true,
		SilenceErrors:     true,
		DisableAutoGenTag: true,
		PersistentPreRunE: func(*cobra.Command, []string) error {
			switch o.format {
			case formatTable, formatJSON, formatYAML:
				return nil
			}
			return fmt.Errorf("output %q: expected %s, %s or %s", o.format, formatTable, formatJSON, formatYAML)
		},
	}
	flags := root.PersistentFlags()
	// The default in the help is the same for everybody.
	flags.StringVarP(&o.socket, "socket", "s", "", "path of the control socket (default: $"+socketVariable+", else "+api.DefaultSocket+")")
	flags.StringVarP(&o.format, "output", "o", formatTable, "table, json or yaml")
	_ = root.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{formatTable, formatJSON, formatYAML}, cobra.ShellCompDirectiveNoFileComp)) // the flag exists
	root.AddCommand(statusCommand(o), guestsCommand(o), namesCommand(o), doctorCommand(o), explainCommand(o), watchCommand(o), topCommand(o))
	return root
}

// client returns the client of the socket that was asked for.
func (o *options) client(cmd *cobra.Command) *client {
	path := cmp.Or(o.socket, os.Getenv(socketVariable), api.DefaultSocket)
	return newClient(path, cmd.ErrOrStderr())
}
