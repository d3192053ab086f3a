// SPDX-License-Identifier: Apache-2.0

// Package puntctl is the command puntctl, which queries a running puntdns over its control socket. Each
// command has a file. The package depends on package api, and not on the process behind the socket.
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
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/puntdns/puntdns/internal/control/api"
)

const (
	// exitWell: all is well, or the object was found.
	exitWell = 0
	// exitUnwell: a problem, or the object was not found.
	exitUnwell = 1
	exitUsage  = 2
	// exitNoProcess: the process could not be asked.
	exitNoProcess = 3
	// exitNotTraced: puntdns would answer, but no trace shows that each query reaches puntdns.
	exitNotTraced = 4
)

// helpWidth is in columns.
const helpWidth = 80

// socketVariable has the path of the socket.
const socketVariable = "PUNTCTL_SOCKET"

// exitError has an exit status other than exitUsage.
type exitError struct {
	status int
	err    error // nil if the output has the reason
	// lost: the process ended a stream early.
	lost bool
}

func (e *exitError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit status %d", e.status)
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

// errUnwell: the output has reported a problem.
var errUnwell = &exitError{status: exitUnwell}

// errNotTraced: the output has reported the missing trace.
var errNotTraced = &exitError{status: exitNotTraced}

// Run runs puntctl with args, and returns the exit status.
func Run(version string, args []string, stdout, stderr io.Writer) int {
	ends := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) { // nohup(1) ignores it
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

type options struct {
	socket string
	format string
}

// New returns the command line of puntctl.
func New(version string) *cobra.Command {
	o := &options{}
	root := &cobra.Command{
		Use:   "puntctl",
		Short: "Show what a running puntdns does, and find faults",
		Long: `puntctl asks a running puntdns over its control socket. The property control of
ofpunt in the Corefile opens this socket. Only root and the user that runs
puntdns may use it.

Output:
  -o table  for a person; on a terminal, tables fit its width
  -o wide   more columns, and nothing is cut
  -o json   for programs; -o yaml has the same fields

Exit status:
  0  all is well, or the object was found
  1  there is a problem, or the object was not found
  2  the command line is wrong
  3  puntdns does not run, has no control socket, or refuses this user
  4  explain and doctor: nothing is wrong, but a query was not traced, so the
     switch may still drop it`,
		Example: `  puntctl status
  puntctl doctor
  puntctl explain red-vm1 db.cloud.internal`,
		Version:           version,
		SilenceUsage:      true,
		SilenceErrors:     true,
		DisableAutoGenTag: true,
		PersistentPreRunE: func(*cobra.Command, []string) error {
			if !slices.Contains(formats, o.format) {
				return fmt.Errorf("--output %q: expected %s", o.format, strings.Join(formats, ", "))
			}
			return nil
		},
	}
	root.SetFlagErrorFunc(flagError)
	root.SetUsageTemplate(strings.ReplaceAll(root.UsageTemplate(), "Flags.FlagUsages", fmt.Sprint("Flags.FlagUsagesWrapped ", helpWidth)))
	flags := root.PersistentFlags()
	// The value of the variable is not the default, so that the help is the same everywhere.
	flags.StringVarP(&o.socket, "socket", "s", "", "path of the control socket (default: $"+socketVariable+", or "+api.DefaultSocket+")")
	flags.StringVarP(&o.format, "output", "o", formatTable, "format: "+strings.Join(formats, ", "))
	_ = root.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(formats, cobra.ShellCompDirectiveNoFileComp)) // the flag exists
	root.AddCommand(statusCommand(o), guestsCommand(o), namesCommand(o), doctorCommand(o), explainCommand(o), watchCommand(o), topCommand(o), egressCommand(o), versionCommand())
	return root
}

func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Show the version of puntctl",
		Long:    "version shows the version of puntctl, as --version does. The version of puntdns\nis in puntctl status.",
		Example: "  puntctl version",
		Args:    needs(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "puntctl version %s\n", cmd.Root().Version)
			return err
		},
	}
}

func (o *options) client(cmd *cobra.Command) *client {
	path := cmp.Or(o.socket, os.Getenv(socketVariable), api.DefaultSocket)
	return newClient(path, cmd.ErrOrStderr())
}
