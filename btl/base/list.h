// btl/base/list.h: an intrusive doubly linked list; members are linked through a base class.
// Idea: posted and pending operations move between queues without allocating, and leave a queue
// in constant time from wherever they are.
#pragma once

#include "btl/base/check.h"

namespace pomona {

struct ListNode {
    ListNode* next = nullptr;
    ListNode* previous = nullptr;
    bool linked() const { return next != nullptr; }
};

template <class T> class List {
public:
    List() { head_.next = head_.previous = &head_; }
    List(const List&) = delete;
    List& operator=(const List&) = delete;

    bool empty() const { return head_.next == &head_; }
    T* front() { return empty() ? nullptr : static_cast<T*>(head_.next); }
    T* next(T* item) {
        ListNode* node = static_cast<ListNode*>(item)->next;
        return node == &head_ ? nullptr : static_cast<T*>(node);
    }
    void push_back(T* item) {
        ListNode* node = item;
        node->previous = head_.previous;
        node->next = &head_;
        head_.previous->next = node;
        head_.previous = node;
    }
    void push_front(T* item) {
        ListNode* node = item;
        node->next = head_.next;
        node->previous = &head_;
        head_.next->previous = node;
        head_.next = node;
    }
    static void insert_before(T* later, T* item) {
        ListNode *after = later, *node = item;
        node->previous = after->previous;
        node->next = after;
        after->previous->next = node;
        after->previous = node;
    }
    static void remove(T* item) {
        ListNode* node = item;
        node->previous->next = node->next;
        node->next->previous = node->previous;
        node->next = node->previous = nullptr;
    }
    T* pop_front() {
        T* item = front();
        if (item) remove(item);
        return item;
    }

private:
    ListNode head_;
};

}  // namespace pomona
