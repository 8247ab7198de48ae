// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package sessioncache

// Class is what a tool call does, as far as its name and arguments tell.
type Class uint8

// The classes. ClassNone is a block that neither is a call nor answers one.
const (
	ClassNone Class = iota
	ClassOther
	ClassRead
	ClassEdit
	ClassWrite
	ClassSearch
	ClassCommand
)

// Classes is the number of classes, for arrays indexed by Class.
const Classes = int(ClassCommand) + 1

var classNames = [Classes]string{"none", "other", "read", "edit", "write", "search", "command"}

// ClassNames returns the names of all classes.
func ClassNames() []string { return classNames[:] }

// String returns the name of the class as it stands in metrics and reports.
func (c Class) String() string { return classNames[c] }
