/*
 * base/list.h: intrusive doubly linked list. No locks of its own.
 */
#ifndef BASE_LIST_H
#define BASE_LIST_H

#include "base/base.h"

struct list_node {
	struct list_node *prev, *next; /* both NULL while on no list */
};

struct list {
	struct list_node head;
	size_t len;
};

static inline void list_init(struct list *l)
{
	l->head.prev = l->head.next = &l->head;
	l->len = 0;
}

static inline bool list_is_empty(const struct list *l)
{
	return l->head.next == &l->head;
}

static inline bool list_node_is_linked(const struct list_node *n)
{
	return n->next != NULL;
}

static inline void list_insert_before(struct list *l, struct list_node *at, struct list_node *n)
{
	n->prev = at->prev;
	n->next = at;
	at->prev->next = n;
	at->prev = n;
	l->len++;
}

static inline void list_append(struct list *l, struct list_node *n)
{
	list_insert_before(l, &l->head, n);
}

static inline void list_prepend(struct list *l, struct list_node *n)
{
	list_insert_before(l, l->head.next, n);
}

static inline void list_remove(struct list *l, struct list_node *n)
{
	n->prev->next = n->next;
	n->next->prev = n->prev;
	n->prev = n->next = NULL;
	l->len--;
}

static inline struct list_node *list_first(struct list *l)
{
	return list_is_empty(l) ? NULL : l->head.next;
}

static inline struct list_node *list_last(struct list *l)
{
	return list_is_empty(l) ? NULL : l->head.prev;
}

static inline struct list_node *list_pop(struct list *l)
{
	struct list_node *n = list_first(l);

	if (n)
		list_remove(l, n);
	return n;
}

/* Move everything of `from` to the end of `to`. */
static inline void list_splice(struct list *to, struct list *from)
{
	struct list_node *n;

	while ((n = list_pop(from)))
		list_append(to, n);
}

#define list_for_each(l, n) for (struct list_node *n = (l)->head.next; n != &(l)->head; n = n->next)
/* The body may remove n. */
#define list_for_each_safe(l, n)                                                                                       \
	for (struct list_node *n = (l)->head.next, *n##_next = n->next; n != &(l)->head;                               \
	     n = n##_next, n##_next = n->next)

#endif
