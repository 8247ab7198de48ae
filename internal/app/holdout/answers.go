// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package holdout

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/figure"
)

// Answer is a question about the comparison, with its answer.
type Answer struct {
	// Question and Text are in words for people.
	Question string `json:"question"`
	Text     string `json:"text"`
}

// Title is the name of a measure for people.
func (m *Measure) Title() string { return cmp.Or(titles[m.Name], m.Name) }

var titles = map[string]string{
	Cost: "cost, of the clients' own bytes", CostPerTurn: "cost per turn", CostPerOutput: "cost per 1,000 output tokens",
	ReadShare: "read from cache", TurnsEach: "turns per session", Rereads: "rereads per 100 turns",
	FailedEdits: "failed edits per 100 turns", Compactions: "compactions per 100 turns", FirstToken: "first token, seconds",
}

// harms are the measures that are worse if they are higher.
var harms = []string{TurnsEach, Rereads, FailedEdits, Compactions, FirstToken}

// lossShare is the share of dearer sessions that is worth a change.
const lossShare = 0.04

// answer puts the measures into words.
func (c *Comparison) answer() {
	cost := c.Of(Cost)
	c.Answers = []Answer{
		{"What did we save?", c.saved(cost)},
		{"Is it certain?", c.certain(cost)},
		{"What did it harm?", c.harmed()},
		{"Who loses?", c.losers()},
		{"What should I change?", c.remedy(cost)},
	}
}

func (c *Comparison) saved(cost *Measure) string {
	switch {
	case !cost.Known:
		return fmt.Sprintf("Not known yet: %d sessions passed unedited, and at least %d of each group are needed.",
			c.Control, minSessions)
	case cost.Change > 0:
		return fmt.Sprintf("Nothing: the same work cost %s more than unedited.", figure.Percent(cost.Change))
	}
	return fmt.Sprintf("%s of what the same work costs unedited.", figure.Percent(-cost.Change))
}

func (c *Comparison) certain(cost *Measure) string {
	if !cost.Known {
		return "No."
	}
	word := "No"
	if cost.Low > 0 || cost.High < 0 {
		word = "Yes"
	}
	text := fmt.Sprintf("%s: the saving is from %s to %s, with a confidence of 95 %%.", word, figure.Percent(-cost.High),
		figure.Percent(-cost.Low))
	if cost.Needed > 0 {
		text += fmt.Sprintf(" About %d more sessions narrow that to ±3 points.", cost.Needed)
	}
	return text
}

func (c *Comparison) harmed() string {
	var worse, rare []string
	for _, name := range harms {
		switch m := c.Of(name); {
		case !m.Known:
			rare = append(rare, m.Title())
		case m.Low > 0:
			worse = append(worse, fmt.Sprintf("%s %s (%s)", m.Title(), figure.Change(1+m.Change), m.Interval()))
		}
	}
	text := "Nothing beyond chance."
	if len(worse) > 0 {
		text = "More than in the control group: " + strings.Join(worse, ", ") + "."
	}
	if len(rare) > 0 {
		text += " Too rare to compare: " + strings.Join(rare, ", ") + "."
	}
	return text
}

// misses reports whether missed text, or the turns that it takes, is beyond chance.
func (c *Comparison) misses() bool {
	for _, name := range [...]string{TurnsEach, Rereads, FailedEdits} {
		if m := c.Of(name); m.Known && m.Low > 0 {
			return true
		}
	}
	return false
}

func (c *Comparison) losers() string {
	if c.Dearer == 0 {
		return "No session."
	}
	loss := figure.Tokens(c.Loss) + " tok"
	if c.Priced {
		loss = figure.Cents(c.Loss)
	}
	return fmt.Sprintf("%d of %d edited sessions cost more than unedited, %s in all; the most costly is %s of %s, %s.",
		c.Dearer, c.Edited, loss, c.Worst.Session, c.Worst.User, figure.Change(1+c.Worst.Change))
}

func (c *Comparison) remedy(cost *Measure) string {
	switch {
	case cost.Known && cost.Low > 0:
		return "Set policy observe, and look for the causes of cache misses on the page."
	case c.misses():
		return "Set planner { risk 0.5 }, which folds less."
	case float64(c.Dearer) > lossShare*float64(c.Edited):
		return "Look at the dearest sessions on the page. planner { risk 0.5 } folds less."
	case !cost.Known || cost.High >= 0 || cost.Needed > 0:
		return "Nothing yet: keep holdout on."
	}
	return "Nothing. You can remove holdout: the sessions held out would save, too."
}

// Interval returns the interval as changes: "-28.0 % to -22.0 %".
func (m *Measure) Interval() string { return figure.Change(1+m.Low) + " to " + figure.Change(1+m.High) }
