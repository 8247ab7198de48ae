// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"text/tabwriter"
	"unicode"
	"unicode/utf8"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/figure"
)

// shown bounds the groups in a table.
const shown = 50

// WriteText writes the summary as a table.
func (s *Summary) WriteText(w io.Writer) error {
	fmt.Fprintf(w, "%d turns from %s to %s\n\n", s.Total.Turns, s.Since.Format("2006-01-02 15:04"),
		s.Until.Format("2006-01-02 15:04 MST"))
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	would := ""
	if s.Total.Observed() {
		would = "would save\t\t"
	}
	keys := strings.Split(s.By, ",")
	before := strings.Repeat("\t", len(keys)-1) // of the columns of one name
	fmt.Fprintf(t, "%s\tturns\tfailed\tprompt\tread\tcost\town bytes\tsaved, net\t\t%s\n", strings.Join(keys, "\t"), would)
	for i, g := range s.Groups {
		if i == shown {
			fmt.Fprintf(t, "%s(%d more)\t\t\t\t\t\t\t\t\t\n", before, len(s.Groups)-shown)
			break
		}
		names := make([]string, len(keys))
		for i, key := range keys {
			names[i] = printable(g.Keys[key])
		}
		s.row(t, strings.Join(names, "\t"), g.Sum)
	}
	s.row(t, before+s.Total.Name, s.Total)
	if err := t.Flush(); err != nil {
		return err
	}
	fmt.Fprint(w,
		"\nSaved is net: what the clients' own bytes would have cost by the cache rules, less what was billed.\n"+
			"Without a known price, costs are in uncached input tokens (tok).\n")
	if slices.Contains(keys, "group") {
		fmt.Fprint(w, "A turn counts in each group of its user, and once in the total.\n")
	}
	if names := s.unpriced(); names != "" {
		fmt.Fprintf(w, "No price is known of %s: that is in no sum of dollars. Hosted models get one by the option prices.\n",
			names)
	}
	if names := s.assumed(); names != "" {
		fmt.Fprintf(w,
			"Rules and prices of some models are not known: the rules of the nearest sibling and the prices of the dearest "+
				"model of the family, or else of the vendor, stand in: %s. They get their own by the option prices.\n", names)
	}
	if n := s.Total.Refused; n > 0 {
		fmt.Fprintf(w, "Refused: %d requests: a budget was spent, or their model is unknown. They are no turns.\n", n)
	}
	if s.Total.Observed() {
		fmt.Fprint(w,
			"Would save is net, too: what the edits that the policy observe only computes would have saved, simulated by the "+
				"same rules.\n")
	}
	if t := s.Total; t.Translation != 0 {
		saved := t.Translation
		if t.Priced() {
			saved = t.TranslationUSD
		}
		fmt.Fprintf(w,
			"Translation: the cache markers that requests in other formats get on their way to Claude saved %s more. That is "+
				"in no other figure.\n", money(t, saved))
	}
	if s.Total.Folded > 0 || s.Total.FoldMisses > 0 {
		fmt.Fprintf(w,
			"Misses: %d blocks were folded, and %d times the model missed one: asked for it, read its file again, or an edit "+
				"did not find its place.\n", s.Total.Folded, s.Total.FoldMisses)
	}
	if err := s.writeBreaks(w); err != nil {
		return err
	}
	if err := s.writeHoldout(w); err != nil {
		return err
	}
	if n := s.Total.Estimated; n > 0 {
		fmt.Fprintf(w,
			"The tokens of %d turns are estimates: the upstream reported no usage, or the answer was cut before it did.\n", n)
	}
	if s.Total.ReadEstimated > 0 {
		fmt.Fprint(w, "~ is an estimate: some servers do not report what they read from their cache.\n")
	}
	if len(s.Windows) > 0 {
		fmt.Fprint(w, "Windows of subscriptions, latest state; ~ estimates the points of a window that edits have saved:\n")
	}
	for i := range s.Windows {
		if i == shown {
			fmt.Fprintf(w, "  (%d more)\n", len(s.Windows)-shown)
			break
		}
		fmt.Fprintf(w, "  %s: %s\n", printable(s.Windows[i].User), s.Windows[i].Text(s.Windows[i].At))
	}
	if s.Coalesced > 0 {
		fmt.Fprintf(w, "%d turns have lost their details, because the store was down or slow; they are counted.\n",
			s.Coalesced)
	}
	return nil
}

// writeBreaks writes what cache misses have cost.
func (s *Summary) writeBreaks(w io.Writer) error {
	if len(s.Breaks) == 0 {
		return nil
	}
	fmt.Fprint(w, "\nCache misses: turns that found less in the cache than their conversation had left there, and what they paid "+
		"for it.\n")
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(t, "cause\tclient\tturns\tcost\t\n")
	for i, b := range s.Breaks {
		if i == shown {
			fmt.Fprintf(t, "\t(%d more)\t\t\t\n", len(s.Breaks)-shown)
			break
		}
		cost := figure.Tokens(b.Units) + " tok"
		if b.USD > 0 {
			cost = figure.Dollars(b.USD)
		}
		fmt.Fprintf(t, "%s\t%s\t%d\t%s\t\n", printable(b.Cause), printable(b.Client), b.Turns, cost)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintln(w)
	return err
}

// writeHoldout writes the comparison with the control group, if there is one.
func (s *Summary) writeHoldout(w io.Writer) error {
	h := s.Holdout
	if h == nil {
		return nil
	}
	fmt.Fprintf(w, "\nControl group: %d edited sessions beside %d that passed unedited.\n", h.Edited, h.Control)
	for _, a := range h.Answers {
		fmt.Fprintf(w, "  %-23s %s\n", a.Question, printables(a.Text))
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(t, "\tedited\tcontrol\tchange\t95 %\tmore sessions for ±3 points\t\n")
	for i := range h.Measures {
		m := &h.Measures[i]
		change, interval, needed := "–", "–", "–"
		if m.Known {
			change, interval, needed = figure.Change(1+m.Change), m.Interval(), fmt.Sprint(m.Needed)
		}
		fmt.Fprintf(t, "%s\t%.4g\t%.4g\t%s\t%s\t%s\t\n", m.Title(), m.Edited, m.Control, change, interval, needed)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintln(w)
	return err
}

func (s *Summary) unpriced() string {
	return listed(s.Unpriced, func(g *Sum) string { return figure.Tokens(g.Cost) + " tok" })
}

func (s *Summary) assumed() string {
	return listed(s.Assumed, func(g *Sum) string { return money(g, g.Actual()) })
}

func listed(sums []*Sum, cost func(*Sum) string) string {
	var names []string
	for i, g := range sums {
		if i == shown {
			names = append(names, fmt.Sprintf("%d more", len(sums)-shown))
			break
		}
		turns := "turns"
		if g.Turns == 1 {
			turns = "turn"
		}
		names = append(names, fmt.Sprintf("%s (%d %s, %s)", printables(g.Name), g.Turns, turns, cost(g)))
	}
	return strings.Join(names, ", ")
}

func (s *Summary) row(w io.Writer, names string, g *Sum) {
	would := ""
	if s.Total.Observed() {
		would = "–\t\t"
		if g.Observed() {
			would = money(g, g.Would()) + "\t" + figure.Percent(g.WouldShare()) + "\t"
		}
	}
	fmt.Fprintf(w, "%s\t%d\t%d\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", names, g.Turns, g.Failed+g.Interrupted,
		figure.Tokens(float64(g.Billed.Prompt())), g.Read(),
		money(g, g.Actual()), money(g, g.Unedited()), money(g, g.Saved()), figure.Percent(g.SavedShare()), would)
}

// maxName bounds a name in a table, in characters.
const maxName = 48

func printable(s string) string {
	// Clients choose names: these must not steer a terminal or break a table's layout.
	s = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, s)
	if all := []rune(s); len(all) > maxName {
		return string(all[:maxName-1]) + "…"
	}
	return s
}

// printables makes each word of a text printable.
func printables(s string) string {
	words := strings.Fields(s)
	for i := range words {
		words[i] = printable(words[i])
	}
	return strings.Join(words, " ")
}

func money(s *Sum, v float64) string {
	if !s.Priced() {
		return figure.Tokens(v) + " tok"
	}
	return figure.Cents(v)
}

// WriteJSON writes the summary as JSON.
func (s *Summary) WriteJSON(w io.Writer) error {
	text, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	// encoding/json leaves DEL and U+0080 to U+009F as they are. A terminal would interpret them.
	text = controls.ReplaceAllFunc(text, func(c []byte) []byte {
		r, _ := utf8.DecodeRune(c)
		return fmt.Appendf(nil, `\u%04x`, r)
	})
	_, err = w.Write(append(text, '\n'))
	return err
}

var controls = regexp.MustCompile(`[\x{7f}-\x{9f}]`)
