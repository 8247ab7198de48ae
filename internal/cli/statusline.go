// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package cli

// Statusline describes the state of a conversation in one line.

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/caddyserver/caddy/v2"
	caddycmd "github.com/caddyserver/caddy/v2/cmd"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/app/subscription"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/figure"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/subcommand"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

const statuslinePatience = 800 * time.Millisecond

// StatuslineCommand returns the subcommand `statusline` of `caddy llm-cache`.
func StatuslineCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "statusline [--admin <address>] [--session <id>]",
		Short: "Says in one line how long the cache holds, what is read from it, and what is saved",
		Long: `
Asks the admin API of a running Caddy for the conversation used last, or that of a
session (as in the header X-Llm-Cache), and prints one line: how long the cache
will hold, what share of the prompts is read from it, what is saved, why the cache
last held less than expected, and how much of a subscription's windows is used.

It is for status lines: of Claude Code ("statusLine": {"type": "command", "command":
"caddy llm-cache statusline"}), and of tmux. What Claude Code passes on the standard
input says which conversation is meant, and tells of its cache where the admin API
cannot be reached, as behind a proxy on another machine. It never fails; where there
is nothing to tell, it says so.
`,
		Example: "  caddy llm-cache statusline",
		Args:    cobra.NoArgs,
		RunE: subcommand.Run(func(cmd *cobra.Command, f caddycmd.Flags) error {
			line := StatusLine(cmd.Context(), f.String("admin"), f.String("session"), passed(cmd.InOrStdin()), time.Now())
			_, err := fmt.Fprintln(cmd.OutOrStdout(), line)
			return err
		}),
	}
	cmd.Flags().String("admin", caddy.DefaultAdminListen, "Address of the admin API")
	cmd.Flags().String("session", "", "The session to tell of, as in the header X-Llm-Cache. Default: the one used last")
	return cmd
}

// StatusLine describes the state of a session, of a client's session, or of the session used last.
func StatusLine(ctx context.Context, admin, session string, of *StatusClient, now time.Time) string {
	ctx, cancel := context.WithTimeout(ctx, statuslinePatience)
	defer cancel()
	path, query := "/llm_cache/sessions", url.Values{}
	switch {
	case session != "":
		path += "/" + url.PathEscape(session)
	case of != nil && of.SessionID != "":
		query.Set("client", of.SessionID)
	}
	sessions, err := ask(ctx, admin, path, query)
	last, windows := latest(sessions)
	switch {
	case last != nil:
		return tell(last, windows, now)
	case session == "" && of != nil && of.PromptCache != nil:
		return of.PromptCache.tell(now)
	case err != nil:
		return "llm_cache: no answer from " + admin
	}
	return "llm_cache: no conversation yet"
}

// statusSession is a session as the admin API describes it.
type statusSession struct {
	sessioncache.SessionSummary
	Windows []subscription.State `json:"windows"`
}

// latest returns the conversation used last, and the usage windows of its user.
func latest(sessions []statusSession) (last *sessioncache.ConversationSummary, windows []subscription.State) {
	for i := range sessions {
		for j := range sessions[i].Conversations {
			if l := &sessions[i].Conversations[j]; l.Requests > 0 && (last == nil || l.Started.After(last.Started)) {
				last, windows = l, sessions[i].Windows
			}
		}
	}
	return last, windows
}

func ask(ctx context.Context, admin, path string, query url.Values) ([]statusSession, error) {
	u := url.URL{Scheme: "http", Host: strings.TrimPrefix(admin, "http://"), Path: path, RawQuery: query.Encode()}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, err
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	if answer.StatusCode == http.StatusNotFound && path != "/llm_cache/sessions" {
		return nil, nil
	}
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("status %d", answer.StatusCode)
	}
	var page struct {
		Sessions []statusSession `json:"sessions"`
	}
	if path != "/llm_cache/sessions" {
		page.Sessions = make([]statusSession, 1)
		return page.Sessions, decodeStatus(answer.Body, &page.Sessions[0])
	}
	return page.Sessions, decodeStatus(answer.Body, &page)
}

func decodeStatus(from io.Reader, into any) error {
	return json.NewDecoder(io.LimitReader(from, 16<<20)).Decode(into)
}

func tell(l *sessioncache.ConversationSummary, windows []subscription.State, now time.Time) string {
	out := []string{"cache " + countdown(l, now)}
	if n := l.Total.Prompt(); n > 0 {
		out = append(out, fmt.Sprintf("read %.0f %%", 100*float64(l.Total.Read)/float64(n)))
	}
	if c := l.Cost; c.ClientUnits > 0 {
		saved := fmt.Sprintf("saved %.0f %%", math.Round(100*(1-c.Units/c.ClientUnits))+0) // never -0
		if c.ClientUSD > 0 {
			saved += " " + figure.Cents(c.ClientUSD-c.USD)
		}
		out = append(out, saved)
	}
	if l.LastBreak != "" {
		out = append(out, "last miss: "+l.LastBreak)
	}
	for i := range windows {
		out = append(out, windows[i].Text(now))
	}
	return strings.Join(out, " · ")
}

func countdown(l *sessioncache.ConversationSummary, now time.Time) string {
	if l.TTLSeconds <= 0 {
		if l.Warm {
			return "warm"
		}
		return "cold"
	}
	since := l.Started
	if l.Warmed != nil && l.Warmed.After(since) {
		since = *l.Warmed
	}
	if !l.Warm {
		return "cold"
	}
	return remaining(time.Duration(l.TTLSeconds*float64(time.Second)) - now.Sub(since))
}

func remaining(left time.Duration) string {
	if left <= 0 {
		return "cold"
	}
	return fmt.Sprintf("%d:%02d", int(left.Minutes()), int(left.Seconds())%60)
}
