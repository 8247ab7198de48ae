// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"errors"
	"fmt"
	"slices"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/app/allowance"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/option"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/tenant"
)

// User names a user by keys, with budgets and models. Several entries may have the same name.
type User struct {
	// Name is the user's name in the report, on the page, in records, metrics and budgets, at most
	// 64 bytes. `*` has the budgets and models of each user without ones by name. A placeholder has
	// the names of all users, such as `{http.auth.user.id}`, which is used in any case, or
	// `{http.request.header.X-User}`. Clients must not be able to choose its value, or one could
	// pose as another.
	Name string `json:"name"`
	// Keys identify the user's requests. Each is an API key, as `{env.ANNAS_KEY}` or
	// `{file./run/secrets/anna}` rather than in plain text; or `sha256:` and the SHA-256 of the key
	// in hexadecimal; or the 16 digits by which the report and the page show an unnamed user.
	// Default: none, Caddy's authentication or a placeholder names the user.
	Keys []string `json:"keys,omitempty"`
	// Groups are the user's groups. Those of a placeholder may be placeholders, whose values are
	// separated by commas or spaces. Default: none.
	Groups []string `json:"groups,omitempty"`
	// Budgets limit the user's spending, in place of those of `*`. They need an audit store that
	// can be read again, so that they outlive a restart. Default: those of `*`.
	Budgets []allowance.Budget `json:"budgets,omitempty"`
	// Models are the models that the user may use. Each * stands for any characters. Requests for
	// other models get a 403. Default: those of the user's groups, or else those of `*`, or else
	// all.
	Models []string `json:"models,omitempty"`
}

// Group limits all users of a group together.
type Group struct {
	// Name is the group's name, or `*` for each group without an entry by name.
	Name string `json:"name"`
	// Members are the names of users of the group, besides those that name it in their own entry.
	// Default: none.
	Members []string `json:"members,omitempty"`
	// Budgets limit the spending of all users of the group together. Default: none.
	Budgets []allowance.Budget `json:"budgets,omitempty"`
	// Models are the models that users of the group may use if they have none of their own: those
	// of any of their groups. Each * stands for any characters. Default: no restriction.
	Models []string `json:"models,omitempty"`
}

// Project limits a project.
type Project struct {
	// Name is the project's name, or `*` for each project without an entry by name.
	Name string `json:"name"`
	// Budgets limit the spending for the project, in dollars or tokens. Default: none.
	Budgets []allowance.Budget `json:"budgets,omitempty"`
}

// Everything limits all requests together.
type Everything struct {
	// Budgets limit the spending of all users together. Default: none.
	Budgets []allowance.Budget `json:"budgets,omitempty"`
}

// Directory has the users of a configuration: their names, groups, budgets and models. It is immutable,
// and replaced when the users file changes.
type Directory struct {
	// Users names the users behind requests.
	Users *tenant.Users
	// Budgets are the budgets of all accounts.
	Budgets allowance.Budgets
	// Required reports that requests of unknown users are refused.
	Required bool

	models map[allowance.Account][]string
}

// directory returns the users of the configuration and of its users file.
func (a *App) directory(file *usersFile) (*Directory, error) {
	d := &Directory{Required: a.RequireUsers, models: map[allowance.Account][]string{}}
	var entries []tenant.UserEntry
	users, groups := slices.Concat(a.Users, file.users), slices.Concat(a.Groups, file.groups)
	for i := range users {
		u := &users[i]
		if err := u.Validate(); err != nil {
			return nil, fmt.Errorf("user: %w", err)
		}
		if u.Name != allowance.Each {
			entries = append(entries, tenant.UserEntry{Name: u.Name, Keys: u.Keys, Groups: u.Groups})
		}
		d.add(allowance.Account{Kind: allowance.User, Name: u.Name}, u.Budgets, u.Models)
	}
	for i := range groups {
		g := &groups[i]
		if err := g.Validate(); err != nil {
			return nil, fmt.Errorf("group: %w", err)
		}
		for _, name := range g.Members {
			entries = append(entries, tenant.UserEntry{Name: name, Groups: []string{g.Name}})
		}
		d.add(allowance.Account{Kind: allowance.Group, Name: g.Name}, g.Budgets, g.Models)
	}
	for i := range a.Projects {
		p := &a.Projects[i]
		if err := p.Validate(); err != nil {
			return nil, fmt.Errorf("project: %w", err)
		}
		d.add(allowance.Account{Kind: allowance.Project, Name: p.Name}, p.Budgets, nil)
	}
	if a.Site != nil {
		if err := validBudgets(a.Site.Budgets); err != nil {
			return nil, fmt.Errorf("site: %w", err)
		}
		d.add(allowance.Account{Kind: allowance.Site}, a.Site.Budgets, nil)
	}
	var err error
	d.Users, err = tenant.NewUsers(entries)
	return d, err
}

func (d *Directory) add(a allowance.Account, budgets []allowance.Budget, models []string) {
	d.Budgets.Add(a, budgets...)
	if len(models) > 0 {
		d.models[a] = append(d.models[a], models...)
	}
}

// Restricts reports whether any user may use certain models only.
func (d *Directory) Restricts() bool { return len(d.models) > 0 }

// Models returns the models that a user may use, nil for all.
func (d *Directory) Models(who *tenant.User) []string {
	if len(d.models) == 0 {
		return nil
	}
	if own := d.models[allowance.Account{Kind: allowance.User, Name: who.Name}]; own != nil {
		return own
	}
	var some []string
	for _, name := range who.Groups {
		of, ok := d.models[allowance.Account{Kind: allowance.Group, Name: name}]
		if !ok {
			of = d.models[allowance.Account{Kind: allowance.Group, Name: allowance.Each}]
		}
		some = append(some, of...)
	}
	if some != nil {
		return some
	}
	return d.models[allowance.Account{Kind: allowance.User, Name: allowance.Each}]
}

// Validate reports an invalid entry, without revealing a key.
func (u *User) Validate() error {
	if u.Name == allowance.Each {
		if len(u.Keys) > 0 || len(u.Groups) > 0 {
			return errors.New("*: keys and groups belong to a user by name")
		}
	} else {
		entry := tenant.UserEntry{Name: u.Name, Keys: u.Keys, Groups: u.Groups}
		if err := entry.Validate(); err != nil {
			return err
		}
		if tenant.Differs(u.Name) && len(u.Budgets)+len(u.Models) > 0 {
			return fmt.Errorf("%q names each user: budgets and models of each user belong to `user *`", u.Name)
		}
	}
	return validLimits(u.Name, u.Budgets, u.Models)
}

// Validate reports an invalid entry.
func (g *Group) Validate() error {
	if err := tenant.ValidateName(g.Name); err != nil {
		return err
	}
	if g.Name == allowance.Each && len(g.Members) > 0 {
		return errors.New("*: members belong to a group by name")
	}
	for _, name := range g.Members {
		if err := tenant.ValidateName(name); err != nil {
			return fmt.Errorf("%s: members: %w", g.Name, err)
		}
	}
	return validLimits(g.Name, g.Budgets, g.Models)
}

// Validate reports an invalid entry.
func (p *Project) Validate() error {
	if err := tenant.ValidateName(p.Name); err != nil {
		return err
	}
	// Requests are counted as they arrive, when their project is not known yet.
	if slices.ContainsFunc(p.Budgets, func(b allowance.Budget) bool { return b.Requests > 0 }) {
		return fmt.Errorf("%s: a budget of a project must be dollars or tokens, got requests", p.Name)
	}
	return validLimits(p.Name, p.Budgets, nil)
}

func validLimits(name string, budgets []allowance.Budget, models []string) error {
	if err := validBudgets(budgets); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if slices.Contains(models, "") {
		return fmt.Errorf("%s: a model is empty", name)
	}
	return nil
}

func validBudgets(all []allowance.Budget) error {
	for i := range all {
		if err := all[i].Validate(); err != nil {
			return fmt.Errorf("budget: %w", err)
		}
	}
	return nil
}

// parseUser parses a user. Entries of one name are joined. Syntax:
//
//	user <name>|<placeholder>|* [<key>...] {
//		key    <key>...
//		group  <name or placeholder>...
//		budget $<dollars>|<count> tokens|<count> requests minute|hour|day|week|month [soft]
//		models <pattern>...
//	}
func parseUser(d *caddyfile.Dispenser, users *[]User) error {
	args := d.RemainingArgs()
	if len(args) == 0 {
		return d.ArgErr()
	}
	u := User{Name: args[0], Keys: args[1:]}
	err := option.Block(d, "user", option.Options{
		"key":    option.AtLeastOne(words(&u.Keys)),
		"group":  option.AtLeastOne(words(&u.Groups)),
		"budget": parseBudget(&u.Budgets),
		"models": option.AtLeastOne(words(&u.Models)),
	})
	if err != nil {
		return err
	}
	if err := u.Validate(); err != nil {
		return d.Errf("user: %v", err)
	}
	if u.Name != allowance.Each && !tenant.Differs(u.Name) && len(args) == 1 &&
		len(u.Keys)+len(u.Groups)+len(u.Budgets)+len(u.Models) == 0 {
		return d.Errf("user: a name alone says nothing: a key, or a block with group, budget or models must follow")
	}
	joinUser(users, u)
	return nil
}

func joinUser(users *[]User, u User) {
	at := slices.IndexFunc(*users, func(other User) bool { return other.Name == u.Name })
	if at < 0 {
		*users = append(*users, u)
		return
	}
	to := &(*users)[at]
	to.Keys, to.Groups = append(to.Keys, u.Keys...), append(to.Groups, u.Groups...)
	to.Budgets, to.Models = append(to.Budgets, u.Budgets...), append(to.Models, u.Models...)
}

// parseGroup parses a group. Syntax:
//
//	group <name>|* {
//		members <name>...
//		budget <as of a user>
//		models <pattern>...
//	}
func parseGroup(d *caddyfile.Dispenser, groups *[]Group) error {
	var g Group
	if !d.AllArgs(&g.Name) {
		return d.ArgErr()
	}
	err := option.Block(d, "group", option.Options{
		"members": option.AtLeastOne(words(&g.Members)),
		"budget":  parseBudget(&g.Budgets),
		"models":  option.AtLeastOne(words(&g.Models)),
	})
	if err != nil {
		return err
	}
	if err := g.Validate(); err != nil {
		return d.Errf("group: %v", err)
	}
	if slices.ContainsFunc(*groups, func(other Group) bool { return other.Name == g.Name }) {
		return d.Errf("duplicate group %q", g.Name)
	}
	*groups = append(*groups, g)
	return nil
}

// parseProject parses a project. Syntax:
//
//	project <name>|* {
//		budget <as of a user>
//	}
func (a *App) parseProject(d *caddyfile.Dispenser) error {
	var p Project
	if !d.AllArgs(&p.Name) {
		return d.ArgErr()
	}
	if err := option.Block(d, "project", option.Options{"budget": parseBudget(&p.Budgets)}); err != nil {
		return err
	}
	if err := p.Validate(); err != nil {
		return d.Errf("project: %v", err)
	}
	if slices.ContainsFunc(a.Projects, func(other Project) bool { return other.Name == p.Name }) {
		return d.Errf("duplicate project %q", p.Name)
	}
	a.Projects = append(a.Projects, p)
	return nil
}

// parseSite parses the budgets of everybody together. Syntax:
//
//	site {
//		budget <as of a user>
//	}
func (a *App) parseSite(d *caddyfile.Dispenser) error {
	a.Site = new(Everything)
	return option.Alone(d, "site", option.Options{"budget": parseBudget(&a.Site.Budgets)})
}

// parseUsers parses what happens to requests of unknown users. Syntax:
//
//	users require
func (a *App) parseUsers(d *caddyfile.Dispenser) error {
	var what string
	if !d.AllArgs(&what) {
		return d.ArgErr()
	}
	if what != "require" {
		return d.Errf("users must be require, got %q", what)
	}
	a.RequireUsers = true
	return nil
}

// parseBudgetOf parses a budget of a user, which stands for a block. Syntax:
//
//	budget <user>|* <as in the block of a user>
func (a *App) parseBudgetOf(d *caddyfile.Dispenser) error {
	if !d.NextArg() {
		return d.ArgErr()
	}
	u := User{Name: d.Val()}
	if err := parseBudget(&u.Budgets)(d); err != nil {
		return err
	}
	if err := u.Validate(); err != nil {
		return d.Errf("budget: %v", err)
	}
	joinUser(&a.Users, u)
	return nil
}

func parseBudget(to *[]allowance.Budget) option.Option {
	return func(d *caddyfile.Dispenser) error {
		b, err := allowance.Parse(d.RemainingArgs())
		if err != nil {
			return d.Errf("budget: %v", err)
		}
		*to = append(*to, b)
		return nil
	}
}

// words appends the words of an option.
func words(to *[]string) option.Option {
	return func(d *caddyfile.Dispenser) error {
		*to = append(*to, d.RemainingArgs()...)
		return nil
	}
}
