// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/app/audit"
)

// now is the day of the latest sample.
var now = time.Now().UTC().Truncate(time.Second)

// written returns a file with turns of three days: a costly user with half saved, a user with
// turns dearer than the client's own bytes, one on a local model without a price, and an old
// turn.
func written(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "audit.db")
	store, err := audit.OpenSQLite(path)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	var batch []*audit.Record
	add := func(back time.Duration, user, model string, usd, client float64, change func(*audit.Record)) {
		r := &audit.Record{
			ID: audit.NewID(now.Add(-back)), At: now.Add(-back), Turns: 1, Kind: audit.KindTurn, User: user, Model: model,
			Client: "claude-code", Session: "s-" + user,
			Billed: audit.Tokens{Read: 900, Uncached: 100, Output: 50}, ClientBilled: audit.Tokens{
				Read: 500, Write5m: 500,
				Output: 50,
			},
			USD: usd, ClientUSD: client, Cost: usd * 1e6, ClientCost: client * 1e6, Outcome: audit.Completed,
			FirstByte: 100 * time.Millisecond, FirstToken: 200 * time.Millisecond, LastToken: time.Second,
			Queue: time.Millisecond,
		}
		if change != nil {
			change(r)
		}
		batch = append(batch, r)
	}
	for range 4 {
		add(25*time.Hour, "alice", "claude-opus-4-6", 0.5, 1, func(r *audit.Record) {
			r.Edits = []audit.Edits{{Stage: "admission", Count: 3}, {Stage: "prune", Count: 1}}
			r.Epoch, r.Folded = "boundary", 2
		})
	}
	add(time.Hour, "bob<script>", "gpt-6.1-sol", 0.3, 0.2,
		func(r *audit.Record) { r.Break, r.BreakCost = "expired", 1e5; r.Outcome = audit.Failed })
	add(time.Hour, "carol", "qwen\x1b[31m", 0, 0, func(r *audit.Record) {
		r.Cost, r.ClientCost = 1000, 1500
		r.Outcome, r.ReadEstimated = audit.Interrupted, 900
	})
	add(2*time.Hour, "alice", "claude-opus-4-6", 1, 2, func(r *audit.Record) { r.Turns = 10 })
	add(30*24*time.Hour, "old", "m", 9, 9, nil)
	if err := store.Write(t.Context(), batch); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestLife: an edit counts as long as it stays, by the tokens that it removes. A fold gets the
// savings of later turns and the cost of the turn that pays.
func TestLife(t *testing.T) {
	turn := func(cost, client float64, folded, removed int64, epoch string) *audit.Record {
		return &audit.Record{
			At: now, Turns: 1, Kind: audit.KindTurn, Session: "s", Cost: cost, ClientCost: client, USD: cost / 1000,
			ClientUSD: client / 1000,
			Folded:    folded, Removed: removed, Epoch: epoch,
			Edits: []audit.Edits{
				{Stage: "admission", Count: 30, Tokens: 100},
				{Stage: "prune", Count: 1, Tokens: 300},
				{Stage: "breakpoints", Count: 4},
			},
		}
	}
	s, err := Summarise(t.Context(), list{
		turn(300, 200, 1, 1000, "boundary"), turn(100, 300, 0, 0, "none"),
		turn(100, 500, 2, 3000, "cold"),
	}, time.Time{}, "user")
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Stages) != 3 || s.Stages[0].Name != "prune" || s.Stages[0].Units != 375 || s.Stages[1].Units != 125 ||
		s.Stages[2].Units != 0 || math.Abs(s.Stages[0].USD-0.375) > 1e-9 {
		t.Errorf("stages %+v", s.Stages)
	}
	if len(s.Epochs) != 2 || s.Epochs[0].Name != "cold" || s.Epochs[0].Units != 300 || s.Epochs[1].Units != -100+200+100 ||
		s.Epochs[1].Turns != 3 {
		t.Errorf("epochs %+v", s.Epochs)
	}
}

// list is a source of records.
type list []*audit.Record

func (l list) Each(_ context.Context, _ time.Time, f func(*audit.Record) error) error {
	for _, r := range l {
		if err := f(r); err != nil {
			return err
		}
	}
	return nil
}

func (list) Close() error { return nil }

// TestNumbers: amounts are formatted for people.
func TestNumbers(t *testing.T) {
	if got, want := money(&Sum{ClientUSD: 1}, 1500), "$1,500.00"; got != want {
		t.Errorf("with a price: got %s, want %s", got, want)
	}
	if got, want := money(&Sum{ClientUSD: 1}, 0.0971), "$0.10"; got != want {
		t.Errorf("below a dollar: got %s, want %s", got, want)
	}
	if got, want := money(&Sum{}, 1500), "1.5k tok"; got != want {
		t.Errorf("without a price: got %s, want %s", got, want)
	}
}

func summarised(t *testing.T, by string) *Summary {
	t.Helper()
	source, err := Open(written(t))
	if err != nil {
		t.Fatal(err)
	}
	defer source.Close()
	s, err := Summarise(t.Context(), source, now.Add(-7*24*time.Hour), by)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestSummary(t *testing.T) {
	s := summarised(t, "user")
	if len(s.Groups) != 3 || s.Groups[0].Name != "alice" || s.Groups[2].Name != "bob<script>" {
		t.Fatalf("%d groups", len(s.Groups))
	}
	if a := s.Groups[0]; a.Turns != 14 || a.Saved() != 3 || a.SavedShare() != 0.5 || a.ReadShare() != 0.9 ||
		a.ClientReadShare() != 0.5 {
		t.Errorf("%+v", *a)
	}
	if c := s.Groups[1]; c.Priced() || c.Saved() != 500 || c.Interrupted != 1 || c.Read() != "~90.0 %" ||
		s.Groups[0].Read() != "90.0 %" || s.Total.ReadEstimated != 900 {
		t.Errorf("%+v", *c)
	}
	if len(s.Unpriced) != 1 || s.Unpriced[0].Turns != 1 || s.Unpriced[0].Cost != 1000 {
		t.Errorf("unpriced: %+v", s.Unpriced)
	}
	if s.Total.Turns != 16 || s.Total.Failed != 1 || s.Coalesced != 10 {
		t.Errorf("%+v", *s.Total)
	}
	if len(s.Stages) != 2 || s.Stages[0].Name != "admission" || s.Stages[0].Units != 1_500_000 ||
		s.Stages[1].Units != 500_000 {
		t.Errorf("stages %+v", s.Stages)
	}
	if len(s.Epochs) != 1 || s.Epochs[0].Turns != 4 || len(s.Breaks) != 1 || s.Breaks[0].Cause != "expired" {
		t.Errorf("epochs %+v, breaks %+v", s.Epochs, s.Breaks)
	}
	var text bytes.Buffer
	if err := s.WriteText(&text); err != nil || !regexp.MustCompile(`expired +claude-code +1 +\$0\.10`).Match(text.Bytes()) {
		t.Errorf("the miss that cost 100,000 tokens at a dollar a million is not in (%v)\n%s", err, &text)
	}
	if l := s.Latencies[1]; l.Name != "first token" || l.P50 != 200 || l.P99 != 200 {
		t.Errorf("%+v", l)
	}
	for _, by := range Keys {
		n := int64(0)
		for _, g := range summarised(t, by).Groups {
			n += g.Turns
		}
		if n != 16 {
			t.Errorf("by %s: %d turns", by, n)
		}
	}
	if _, err := Summarise(t.Context(), nil, now, "colour"); err == nil {
		t.Error("colour is no key")
	}
}

// The page has its data, and a policy that lets it load and send nothing. A browser tests the rest.
func TestPage(t *testing.T) {
	var b bytes.Buffer
	if err := summarised(t, "project,model").WriteHTML(&b); err != nil {
		t.Fatal(err)
	}
	page := b.String()
	policy := regexp.MustCompile(`Content-Security-Policy" content="([^"]*)"`).FindStringSubmatch(page)
	if policy == nil || !strings.HasPrefix(policy[1], "default-src 'none'; ") || strings.Contains(policy[1], "unsafe") ||
		strings.Contains(policy[1], "connect-src") {
		t.Errorf("the policy is %q", policy)
	}
	if strings.Contains(page, `src="`) || strings.Contains(page, "bob<script>") {
		t.Error("the page loads something, or a client's name is a part of its text")
	}
	data := regexp.MustCompile(`(?s)<script type="application/json" id="data">(.*?)</script>`).FindStringSubmatch(page)
	var got struct {
		Period audit.Period
		CSV    map[string]string
	}
	if data == nil || json.Unmarshal([]byte(data[1]), &got) != nil {
		t.Fatalf("the data is %q", data)
	}
	p := got.Period
	if p.Total.Turns != 16 || len(p.Trend) != 8 || p.Dimensions[0].Key != "project,model" || len(p.Dimensions) < 5 ||
		!strings.Contains(p.Dimensions[0].Sums[0].Name, " / claude-opus-4-6") || p.Latencies[1].P95 != 200 {
		t.Errorf("got %+v", p)
	}
	if csv := got.CSV["user"]; !strings.HasPrefix(csv, "user,turns,") || !strings.Contains(csv, "\nalice,14,") {
		t.Errorf("the spreadsheet has %q", csv)
	}
	empty := &Summary{Period: audit.Period{Total: &Sum{}}, By: "user"}
	if err := empty.WriteHTML(io.Discard); err != nil {
		t.Error(err)
	}
}

func TestCommand(t *testing.T) {
	path := written(t)
	page := filepath.Join(t.TempDir(), "report.html")
	run := func(args ...string) (string, error) {
		var b bytes.Buffer
		cmd := &cobra.Command{SilenceErrors: true, SilenceUsage: true}
		cmd.AddCommand(Command())
		cmd.SetOut(&b)
		cmd.SetErr(io.Discard)
		cmd.SetArgs(append([]string{"report"}, args...))
		err := cmd.Execute()
		return b.String(), err
	}
	text, err := run("--store", path, "--html", page, "--by", "model")
	if err != nil || !strings.Contains(text, "16 turns") || !strings.Contains(text, "$2.90") ||
		strings.ContainsRune(text, 0x1b) {
		t.Errorf("%v\n%s", err, text)
	}
	if b, err := os.ReadFile(page); err != nil || !bytes.Contains(b, []byte("<!doctype html>")) {
		t.Errorf("no page: %v", err)
	}
	text, err = run("--store", path, "--json", "--since", "1d")
	var s Summary
	if err != nil || json.Unmarshal([]byte(text), &s) != nil || s.Total.Turns != 12 {
		t.Errorf("%v\n%s", err, text)
	}
	for _, args := range [][]string{
		{"--store", path, "--since", "x"},
		{"--store", path, "--by", "x"},
		{"--store", path, "--by", ""},
		{"--store", path, "--by", "user,user"},
		{"--store", path, "--format", "xml"},
		{"--store", path + "no"},
	} {
		if _, err := run(args...); err == nil {
			t.Errorf("%v is no error", args)
		}
	}
}

// TestExport: who spent what by several keys, as a table, CSV and JSON. A user has one line for each
// project, also for the time before the user had a name.
func TestExport(t *testing.T) {
	turn := func(tenant, user, project, model string, usd float64) *audit.Record {
		return &audit.Record{
			At: now, Turns: 1, Kind: audit.KindTurn, Tenant: tenant, User: user, Project: project, Model: model,
			Billed: audit.Tokens{Uncached: 1, Write5m: 2, Write1h: 3, Read: 4, Output: 5}, USD: usd, ClientUSD: 2 * usd,
			Cost: 10, ClientCost: 20, Outcome: audit.Completed,
		}
	}
	refused := turn("2", "ben", "", "", 0)
	refused.Outcome = audit.Refused
	records := list{
		turn("1", "1", "shop", "claude-opus-5-5", 4), turn("1", "anna", "shop", "claude-opus-5-5", 4),
		turn("1", "anna", "blog", "claude-opus-5-5", 3), turn("1", "anna", "blog", "gpt-6.1", 2),
		turn("2", "ben", "=cmd|' /C calc'!A0", "a,\"b\"\x1b[31m", 1), refused,
	}
	s, err := Summarise(t.Context(), records, time.Time{}, "user, project,model")
	if err != nil {
		t.Fatal(err)
	}
	var csv, text, page, object bytes.Buffer
	if err := errors.Join(s.WriteCSV(&csv), s.WriteText(&text), s.WriteHTML(&page), s.WriteJSON(&object)); err != nil {
		t.Fatal(err)
	}
	const want = `user,project,model,turns,failed,interrupted,refused,unpriced,uncached_tokens,write_5m_tokens,` +
		`write_1h_tokens,read_tokens,output_tokens,usd,client_usd,cost,client_cost
anna,shop,claude-opus-5-5,2,0,0,0,0,2,4,6,8,10,8.000000,16.000000,20.000000,40.000000
anna,blog,claude-opus-5-5,1,0,0,0,0,1,2,3,4,5,3.000000,6.000000,10.000000,20.000000
anna,blog,gpt-6.1,1,0,0,0,0,1,2,3,4,5,2.000000,4.000000,10.000000,20.000000
ben,'=cmd|' /C calc'!A0,"a,""b""[31m",1,0,0,0,0,1,2,3,4,5,1.000000,2.000000,10.000000,20.000000
ben,(none),(none),0,0,0,1,0,0,0,0,0,0,0.000000,0.000000,0.000000,0.000000
`
	if csv.String() != want {
		t.Errorf("got\n%s\nwant\n%s", csv.String(), want)
	}
	if got := regexp.MustCompile(` +`).ReplaceAllString(text.String(), " "); !strings.Contains(got,
		"user project model turns") || !strings.Contains(got, "anna blog gpt-6.1 1 0") || !strings.Contains(got, " total 5 0") {
		t.Errorf("got\n%s", text.String())
	}
	if !strings.Contains(page.String(), "anna / blog / gpt-6.1") {
		t.Error("the page lacks a group")
	}
	var got struct {
		By     string
		Groups []struct {
			Name string
			Keys map[string]string
			USD  float64
		}
	}
	if err := json.Unmarshal(object.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	if g := got.Groups[0]; got.By != "user,project,model" || len(got.Groups) != 5 || g.USD != 8 ||
		g.Name != "anna / shop / claude-opus-5-5" || g.Keys["project"] != "shop" || len(g.Keys) != 3 {
		t.Errorf("got %+v", got)
	}
	for by, want := range map[string]int{"project": 4, "day,user": 2, "user": 2, "client": 1} {
		if s, err := Summarise(t.Context(), records, time.Time{}, by); err != nil || len(s.Groups) != want {
			t.Errorf("by %s: got %d groups, %v, want %d", by, len(s.Groups), err, want)
		}
	}
}

// TestExportByGroup: a turn counts in each group of its user, and once in the total.
func TestExportByGroup(t *testing.T) {
	turn := func(user string, usd float64, groups ...string) *audit.Record {
		return &audit.Record{
			At: now, Turns: 1, Kind: audit.KindTurn, Tenant: user, User: user, Groups: groups, USD: usd, ClientUSD: 2 * usd,
			Cost: 10, ClientCost: 20, Outcome: audit.Completed,
		}
	}
	records := list{turn("anna", 4, "web", "night"), turn("ben", 2, "web"), turn("carla", 1)}
	s, err := Summarise(t.Context(), records, time.Time{}, "group,user")
	if err != nil {
		t.Fatal(err)
	}
	var csv, text bytes.Buffer
	if err := errors.Join(s.WriteCSV(&csv), s.WriteText(&text)); err != nil {
		t.Fatal(err)
	}
	const want = `night,anna,4.000000
web,anna,4.000000
web,ben,2.000000
(none),carla,1.000000
`
	got := regexp.MustCompile(`(?m)^([^,]+,[^,]+),.*?([0-9.]+),[0-9.]+,[0-9.]+,[0-9.]+$`).ReplaceAllString(csv.String(), "$1,$2")
	if _, lines, _ := strings.Cut(got, "\n"); lines != want {
		t.Errorf("got\n%s\nwant\n%s", lines, want)
	}
	if s.Total.Turns != 3 || s.Total.USD != 7 || !strings.Contains(text.String(), "once in the total") {
		t.Errorf("got the total %+v in\n%s\nwant 3 turns of $7", s.Total, text.String())
	}
	if s, err = Summarise(t.Context(), records, time.Time{}, "group"); err != nil || len(s.Groups) != 3 ||
		s.Groups[0].Name != "web" || s.Groups[0].USD != 6 {
		t.Errorf("got %+v, %v, want $6 of web first", s.Groups, err)
	}
}

// Every connection string of libpq is accepted, with or without a database name.
func TestOpenPostgres(t *testing.T) {
	for _, name := range []string{
		"postgres://u@127.0.0.1:1/d", "postgresql://127.0.0.1:1",
		"host=127.0.0.1 port=1 user=u password=p", "dbname=d user=u",
	} {
		s, err := Open(name)
		if err != nil {
			t.Errorf("%q: %v", name, err)
			continue
		}
		if _, ok := s.(*audit.Postgres); !ok {
			t.Errorf("%q is opened as %T", name, s)
		}
		_ = s.Close()
	}
}

// TestHoldoutInText: the report of a control group has the answers and the measures of both groups.
func TestHoldoutInText(t *testing.T) {
	var records list
	for i := range 40 {
		r := &audit.Record{
			At: now, Turns: 1, Kind: audit.KindTurn, User: "anna", Session: fmt.Sprint(i), USD: 0.5, ClientUSD: 1, Cost: 50,
			ClientCost: 100, Billed: audit.Tokens{Read: 10, Output: 1000}, Outcome: audit.Completed,
		}
		if i%2 == 0 {
			r.Holdout, r.Policy, r.USD, r.Cost = true, "observe", 1, 100
		}
		records = append(records, r)
	}
	s, err := Summarise(t.Context(), records, time.Time{}, "user")
	if err != nil {
		t.Fatal(err)
	}
	var text, object bytes.Buffer
	if err := errors.Join(s.WriteText(&text), s.WriteJSON(&object)); err != nil {
		t.Fatal(err)
	}
	got := regexp.MustCompile(` +`).ReplaceAllString(text.String(), " ")
	for _, want := range []string{
		"Control group: 20 edited sessions beside 20 that passed unedited.", "What did we save? 50.0 % of what the same work costs unedited.",
		"Is it certain? Yes:", "What should I change?", "cost per turn 0.5 1 -50.0 %",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("got\n%s\nwant %q in it", text.String(), want)
		}
	}
	if !strings.Contains(object.String(), `"name": "cost_per_turn"`) {
		t.Errorf("got\n%s\nwant the measures", object.String())
	}
}
