// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/caddyserver/caddy/v2"
	caddycmd "github.com/caddyserver/caddy/v2/cmd"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/app"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/app/audit"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/subcommand"
)

// Command returns the subcommand `report` of `caddy llm-cache`.
func Command() *cobra.Command {
	cmd := &cobra.Command{
		Use: "report [--since <duration>] [--by user,group,project,model,client,session,day] [--format text|json|csv] " +
			"[--store <path or DSN>] [--html <file>]",
		Short: "Tells from the audit records what was saved, net",
		Long: `
Reads the records that the global option audit of llm_cache keeps, and prints
what the turns cost, what the clients' own bytes would have cost, and the net
saving, by user, group, project, model, client, session or day, or by several of
them. A turn counts in each group of its user, as in the groups' budgets, and once
in the total.

The store is a SQLite file, a file of JSON lines (.jsonl), or a PostgreSQL
connection string or URL; by default the file of the Caddy that runs on this machine,
or else the SQLite file in Caddy's data directory.

With --format csv a spreadsheet can read it: a line for each group, with costs in
US dollars and in uncached input tokens. --format json has the same and more.

With --html a page with charts is written, too. It needs nothing but itself.
`,
		Example: "  caddy llm-cache report --since 1d --by user,model\n" +
			"  caddy llm-cache report --since 30d --by project --format csv",
		Args: cobra.NoArgs,
		RunE: subcommand.Run(run),
	}
	cmd.Flags().String("since", "7d", "How far back to look, such as 24h or 30d")
	cmd.Flags().String("by", "user", "What to group by, separated by commas: "+strings.Join(Keys, ", "))
	cmd.Flags().String("format", "text", "How to print the report: text, json, csv")
	cmd.Flags().String("store", "",
		"SQLite file, .jsonl file, or PostgreSQL connection string or URL. Default: the file of the running Caddy")
	cmd.Flags().String("admin", caddy.DefaultAdminListen, "Address of the running Caddy's admin API")
	cmd.Flags().String("html", "", "File to write a page with charts to")
	cmd.Flags().Bool("json", false, "The same as --format json")
	return cmd
}

func run(cmd *cobra.Command, f caddycmd.Flags) error {
	back, err := caddy.ParseDuration(f.String("since"))
	if err != nil || back <= 0 {
		return fmt.Errorf("since: %q is not a duration above zero", f.String("since"))
	}
	format := f.String("format")
	if f.Bool("json") {
		format = "json"
	}
	write := writers[format]
	if write == nil {
		return fmt.Errorf("format must be text, json or csv, got %q", format)
	}
	source, err := open(cmd.Context(), f.String("store"), f.String("admin"))
	if err != nil {
		return err
	}
	defer source.Close()
	s, err := Summarise(cmd.Context(), source, time.Now().Add(-back), f.String("by"))
	if err != nil {
		return err
	}
	if path := f.String("html"); path != "" {
		file, err := os.Create(path)
		if err != nil {
			return err
		}
		if err := errors.Join(s.WriteHTML(file), file.Close()); err != nil {
			return err
		}
	}
	return write(s, cmd.OutOrStdout())
}

// adminTime bounds the wait for the admin API.
const adminTime = time.Second

// open opens the named store, or else that of the running Caddy, or else the default one.
func open(ctx context.Context, name, admin string) (audit.Source, error) {
	if name != "" {
		return Open(name)
	}
	records, err := ask(ctx, admin)
	if err != nil { // no Caddy is running
		records = app.Records{Module: "sqlite", Path: app.DefaultAuditPath()}
	}
	switch {
	case records.Module == "":
		return nil, fmt.Errorf("report: the Caddy at %s keeps no records. The global option llm_cache { audit } has it do so", admin)
	case records.Path == "":
		return nil, fmt.Errorf("report: the Caddy at %s keeps its records in %s: give its connection string by --store",
			admin, records.Module)
	}
	source, err := Open(records.Path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("report: no turn is on record in %s. The global option llm_cache { audit } has Caddy "+
			"keep records; --store names another store: %w", records.Path, err)
	case errors.Is(err, fs.ErrPermission):
		return nil, fmt.Errorf("report: %w. Run the command as the user of the service", err)
	}
	return source, err
}

// ask asks a running Caddy for its audit store.
func ask(ctx context.Context, admin string) (of app.Records, err error) {
	ctx, cancel := context.WithTimeout(ctx, adminTime)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+admin+"/llm_cache/records", nil)
	if err != nil {
		return of, fmt.Errorf("report: admin: %w", err)
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return of, err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return of, fmt.Errorf("report: the admin API at %s answers %s", admin, answer.Status)
	}
	return of, json.NewDecoder(io.LimitReader(answer.Body, 1<<16)).Decode(&of)
}

// writers are the formats of the report.
var writers = map[string]func(*Summary, io.Writer) error{
	"text": (*Summary).WriteText, "json": (*Summary).WriteJSON, "csv": (*Summary).WriteCSV,
}
